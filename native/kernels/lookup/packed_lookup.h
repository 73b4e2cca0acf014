// The lookup of lookup.h in tables whose rows have other formats than float32: numbers become float32 as they are summed.

#pragma once

#include "kernels/lookup/lookup.h"
#include "kernels/lookup/row_format.h"

// tables[t] [V, RowWords(formats[t], D)] -> out[m], uninitialised on entry; each element belongs to one column.
CTRLAB_EXPORT void ctrlab_packed_lookup(const ctrlab::LookupInput* input, const float* const* tables,
                                        const ctrlab::RowFormat* formats, float* const* out,
                                        const ctrlab::ParallelFor* parallel_for);
