// The first half of the lookup's gradient: the rows of equal keys added up, for any int64 keys. In two calls, so that the caller
// can give room of the right size in between:
//
//   KeyMerge merge(input, parallel_for);        // needs ids and splits only
//   ... merge.count(t) ...
//   merge.Write(d_out, merged, parallel_for);
//
// Each sum runs column by column, row by row: the same bits on any number of threads. A mean's weight is 1 / the ids of the row.

#pragma once

#include <cstdint>
#include <memory>

#include "kernels/lookup/lookup.h"

namespace ctrlab::embedding {

// A table's gradient.
struct MergedKeys {
  int64_t* keys;    // [count(t)], ascending, each once
  int64_t* counts;  // [count(t)], how often each came
  float* rows;  // [count(t), D], the sum of what its places in the outputs were given; null: only keys and counts are asked for
};

class KeyMerge {
 public:
  KeyMerge(const LookupInput& input, const ParallelFor& parallel_for);  // keeps a reference to the input
  ~KeyMerge();

  int64_t count(int64_t table) const;  // different keys

  // d_out[m] -> merged[t]. d_out may be null where all `rows` are.
  void Write(const float* const* d_out, const MergedKeys* merged, const ParallelFor& parallel_for) const;

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

}  // namespace ctrlab::embedding
