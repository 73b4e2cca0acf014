// Embedding lookup of many columns at once, and the first half of its gradient: the sum of the rows of equal ids.
//
//   sum, mean   out[b, offset : offset + D] = sum (mean) over the known ids i of row b:  table[i]
//   rows        out[n, offset : offset + D] = table[ids[n]], one row per id
//
// Shapes: C columns, B rows, T tables [V, D], M outputs that concatenate columns. The id -1 is "unknown": it contributes nothing.
// It gives zeros under `rows`; a sum or mean without known ids is zero too.
// The caller has checked every id and every split; a kernel may trust them.

#pragma once

#include "kernels/abi.h"

namespace ctrlab {

enum Combiner : int64_t { kRows = 0, kSum = 1, kMean = 2 };

enum class RowFormat : int64_t;  // row_format.h

struct LookupColumn {
  const int64_t* ids;     // [n], each in [-1, V)
  const int64_t* splits;  // [B + 1]: row b has ids[splits[b]] to ids[splits[b + 1] - 1]; null: row b has only ids[b]
  int64_t table;          // which table
  int64_t output;         // which output
  int64_t offset;         // start of its D numbers in a row of that output
  Combiner combiner;
};

struct LookupTable {
  int64_t rows, dim;  // V, D
};

struct LookupInput {
  const LookupColumn* columns;  // [C]
  int64_t column_count;         // C
  const LookupTable* tables;    // [T]
  int64_t table_count;          // T
  const int64_t* widths;        // [M], the numbers in a row of each output
  int64_t rows;                 // B; it and each column's number of ids are below 2^31
};

// A table's merged gradient: its distinct ids, ascending, and for each the sum of the gradients at its places in the outputs.
struct MergedRows {
  int64_t* ids;   // capacity: the smaller of V and the number of the table's ids
  float* rows;    // the same number of rows, D each
  int64_t count;  // the number of distinct ids
};

}  // namespace ctrlab

// tables[t] [V, D] -> out[m], uninitialised on entry; each element belongs to one column.
CTRLAB_EXPORT void ctrlab_lookup(const ctrlab::LookupInput* input, const float* const* tables, float* const* out,
                                 const ctrlab::ParallelFor* parallel_for);

// The same for packed tables[t] [V, RowWords(formats[t], D)]. Their numbers are converted to float32 while they are summed: see
// row_format.h.
CTRLAB_EXPORT void ctrlab_packed_lookup(const ctrlab::LookupInput* input, const float* const* tables,
                                        const ctrlab::RowFormat* formats, float* const* out,
                                        const ctrlab::ParallelFor* parallel_for);

// d_out[m] -> merged[t]. Each sum runs column by column, row by row: bitwise equal results for any number of threads.
CTRLAB_EXPORT void ctrlab_lookup_merge(const ctrlab::LookupInput* input, const float* const* d_out, ctrlab::MergedRows* merged,
                                       const ctrlab::ParallelFor* parallel_for);
