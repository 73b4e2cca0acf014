// The hash of keys, for stores and tables. ctrlab/embedding/initial_values.py has its twin in NumPy.

#pragma once

#include <cstdint>

namespace ctrlab::embedding {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

// A bijection on 64 bits; each bit of the result depends on all of x (the last step of SplitMix64: Steele, Lea & Flood, 2014).
constexpr uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

constexpr uint64_t HashKey(int64_t key) { return Mix(static_cast<uint64_t>(key) + kGolden); }

}  // namespace ctrlab::embedding
