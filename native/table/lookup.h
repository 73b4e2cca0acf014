// Lookup of many columns from many tables at once, pooled as in kernels/lookup/lookup.h, whose LookupInput it takes:
//
//   any int64 is a key; none means "unknown". LookupTable::rows is not used, LookupTable::dim is the table's.
//   training: a key without a row reads its initial value; otherwise it reads 0, and counts in a mean all the same.
//   The mean of an empty row is 0.

#pragma once

#include <cstdint>

#include "kernels/lookup/lookup.h"
#include "store/status.h"
#include "table/table.h"

namespace ctrlab::embedding {

// tables[t] -> out[m], uninitialised; every number of it belongs to one column. A table may stand in several places. Each table
// is read at one moment: all before an Update or all after it.
Status Lookup(const LookupInput& input, Table* const* tables, bool training, float* const* out, const ParallelFor& parallel_for);

}  // namespace ctrlab::embedding
