// Work on the shards of an index, one thread per shard.

#pragma once

#include "kernels/abi.h"
#include "table/index.h"

namespace ctrlab::embedding {

// Calls visit(shard) for each; `keys`, the total number of keys, determines the estimated cost.
template <class Visit>
void EachIndexShard(const ParallelFor& parallel_for, int64_t keys, const Visit& visit) {
  constexpr int64_t kCyclesPerKey = 200;
  parallel_for(Index::kShards, (keys / Index::kShards + 1) * kCyclesPerKey, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) visit(s);
  });
}

}  // namespace ctrlab::embedding
