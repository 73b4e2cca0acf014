// Work on the shards of an index, one thread a shard.

#pragma once

#include <atomic>
#include <new>

#include "embedding/index.h"
#include "kernels/abi.h"

namespace ctrlab::embedding {

// Calls visit(shard); `keys` of all of them together say how dear that is. What a visit throws must not leave the pool's thread:
// a std::bad_alloc of any is thrown here, when all are done.
template <class Visit>
void EachIndexShard(const ParallelFor& parallel_for, int64_t keys, const Visit& visit) {
  constexpr int64_t kCyclesPerKey = 200;
  std::atomic<bool> failed = false;
  parallel_for(Index::kShards, (keys / Index::kShards + 1) * kCyclesPerKey, [&](int64_t begin, int64_t end) {
    try {
      for (int64_t s = begin; s < end; ++s) visit(s);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
  });
  if (failed) throw std::bad_alloc();
}

}  // namespace ctrlab::embedding
