// Lookup of many columns from many tables at once, pooled as in kernels/lookup/lookup.h, whose LookupInput it takes:
//
//   Any int64 is a key; no key means "unknown". LookupTable::rows is not used, LookupTable::dim is the table's.
//   training: a key without a row reads its initial value; otherwise it reads 0, but still counts in a mean.
//   The mean of an empty row is 0.

#pragma once

#include <cstdint>

#include "kernels/lookup/lookup.h"
#include "store/status.h"
#include "table/table.h"

namespace ctrlab::embedding {

// tables[t] -> out[m], uninitialised on entry; each element belongs to one column. A table may appear several times. Each table
// is read at one moment: completely before or completely after an Update.
Status Lookup(const LookupInput& input, Table* const* tables, bool training, float* const* out, const ParallelFor& parallel_for);

}  // namespace ctrlab::embedding
