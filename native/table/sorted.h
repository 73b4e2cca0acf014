// Sorted lists of distinct keys.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ctrlab::embedding {

// Sorts and removes duplicates.
inline void SortOnce(std::vector<int64_t>* keys) {
  std::sort(keys->begin(), keys->end());
  keys->erase(std::unique(keys->begin(), keys->end()), keys->end());
}

}  // namespace ctrlab::embedding
