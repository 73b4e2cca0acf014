// Embedding lookup of many columns at once, and the first half of its gradient: the rows of equal ids added up.
//
//   sum, mean   out[b, offset : offset + D] = sum (mean) over the known ids i of row b:  table[i]
//   rows        out[n, offset : offset + D] = table[ids[n]], a row for each id
//
// Shapes: C columns, B rows, T tables [V, D], M outputs in which columns stand side by side. The id -1 is "unknown": it
// contributes nothing, and gives zeros where each id has a row of its own, as an empty row does in a sum or a mean.
// The caller has checked every id and every split; a kernel may trust them.

#pragma once

#include "kernels/abi.h"

namespace ctrlab {

enum Combiner : int64_t { kRows = 0, kSum = 1, kMean = 2 };

struct LookupColumn {
  const int64_t* ids;     // [n], each in [-1, V)
  const int64_t* splits;  // [B + 1]: row b has ids[splits[b]] to ids[splits[b + 1] - 1]; null: row b has ids[b] alone
  int64_t table;          // which table
  int64_t output;         // which output
  int64_t offset;         // where its D numbers begin in a row of that output
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
  int64_t rows;                 // B; it and every column's ids number below 2^31
};

// A table's gradient: ids in ascending order, each once, and the sum of what its places in the outputs were given.
struct MergedRows {
  int64_t* ids;   // room for the smaller of V and the number of the table's ids
  float* rows;    // the same number of rows of D
  int64_t count;  // how many there are
};

}  // namespace ctrlab

// tables[t] [V, D] -> out[m], uninitialised; every number of it belongs to one column.
CTRLAB_EXPORT void ctrlab_lookup(const ctrlab::LookupInput* input, const float* const* tables, float* const* out,
                                 const ctrlab::ParallelFor* parallel_for);

// d_out[m] -> merged[t]. Each sum runs column by column, row by row: the same bits on any number of threads.
CTRLAB_EXPORT void ctrlab_lookup_merge(const ctrlab::LookupInput* input, const float* const* d_out, ctrlab::MergedRows* merged,
                                       const ctrlab::ParallelFor* parallel_for);
