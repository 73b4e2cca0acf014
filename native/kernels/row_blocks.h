// Cutting a ragged batch for threads.

#pragma once

#include <algorithm>
#include <vector>

#include "kernels/abi.h"

namespace ctrlab {

// Runs of rows with about the same work, block k's being rows [blocks[k], blocks[k + 1]). They depend on the batch alone, so
// that sums over blocks always have the same order. A row costs `per_row` by itself, in events.
inline std::vector<int64_t> RowBlocks(const int64_t* splits, int64_t rows, int64_t per_row) {
  const int64_t all = splits[rows] + per_row * rows, target = std::max<int64_t>(256, all / 128);
  std::vector<int64_t> blocks = {0};
  int64_t cost = 0;
  for (int64_t b = 0; b < rows; ++b) {
    cost += splits[b + 1] - splits[b] + per_row;
    if (cost < target && b + 1 < rows) continue;
    blocks.push_back(b + 1);
    cost = 0;
  }
  return blocks;
}

}  // namespace ctrlab
