// Splits users and their candidates into blocks for threads: the rows of a block belong to one user, one row per SIMD lane.

#pragma once

#include <algorithm>
#include <vector>

#include "kernels/lanes.h"

namespace ctrlab {

// Where each user's candidates and pairs begin; one more than the users.
struct Offsets {
  std::vector<int64_t> rows{0}, pairs{0};

  Offsets(const int64_t* splits, const int64_t* candidates, int64_t users) {
    for (int64_t u = 0; u < users; ++u) {
      rows.push_back(rows.back() + candidates[u]);
      pairs.push_back(pairs.back() + candidates[u] * (splits[u + 1] - splits[u]));
    }
  }
};

// Lanes [first, first + count) of a user.
struct LaneBlock {
  int64_t user, first, count;
};

// Adds the blocks of a user with so many lanes.
inline void AddUser(int64_t user, int64_t lanes, std::vector<LaneBlock>* blocks) {
  constexpr int64_t kMost = kMostLaneVectors * kLanes;
  for (int64_t first = 0; first < lanes; first += kMost) blocks->push_back({user, first, std::min(kMost, lanes - first)});
}

// Blocks are dealt round-robin to this many groups, each with scratch memory of its own.
inline int64_t LaneGroups(const std::vector<LaneBlock>& blocks) { return std::min<int64_t>(std::ssize(blocks), 32); }

}  // namespace ctrlab
