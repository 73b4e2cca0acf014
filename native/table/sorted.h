// Lists of keys in which each comes once.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ctrlab::embedding {

// Ascending, each once.
inline void SortOnce(std::vector<int64_t>* keys) {
  std::sort(keys->begin(), keys->end());
  keys->erase(std::unique(keys->begin(), keys->end()), keys->end());
}

}  // namespace ctrlab::embedding
