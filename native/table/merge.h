// The first half of the lookup's gradient: the sum of the rows of equal keys, for any int64 keys. It takes two calls, so that the
// caller can allocate the right size in between:
//
//   KeyMerge merge(input, parallel_for);        // needs ids and splits only
//   ... merge.count(t) ...
//   merge.Write(d_out, merged, parallel_for);
//
// Each sum runs column by column, row by row: bitwise equal for any number of threads. In a mean a key's weight is 1 / its row's
// ids. A key that was sent once for all of its occurrences comes with `times`, their number.

#pragma once

#include <cstdint>
#include <memory>

#include "kernels/lookup/lookup.h"

namespace ctrlab::embedding {

// A table's merged gradient.
struct MergedKeys {
  int64_t* keys;    // [count(t)], ascending, distinct
  int64_t* counts;  // [count(t)], number of occurrences of each, or the sum of its times
  float* rows;  // [count(t), D], the sum of the gradients at its places in the outputs; null if only keys and counts are wanted
};

class KeyMerge {
 public:
  // Keeps a reference to the input. times[c]: for each key of column c its number of occurrences; null: 1 each. Columns with
  // times have the combiner kRows.
  KeyMerge(const LookupInput& input, const ParallelFor& parallel_for, const int64_t* const* times = nullptr);
  ~KeyMerge();

  int64_t count(int64_t table) const;  // number of distinct keys

  // d_out[m] -> merged[t]. d_out may be null if all `rows` are.
  void Write(const float* const* d_out, const MergedKeys* merged, const ParallelFor& parallel_for) const;

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

}  // namespace ctrlab::embedding
