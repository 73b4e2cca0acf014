// Splits a ragged batch into blocks for threads.

#pragma once

#include <algorithm>
#include <vector>

#include "kernels/abi.h"

namespace ctrlab {

// Runs of rows with about equal work; block k has rows [blocks[k], blocks[k + 1]). They depend only on the batch, so sums over
// blocks always have the same order. `per_row` is the fixed cost of a row, in events.
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
