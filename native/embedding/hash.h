// The engine's one hash of a key. ctrlab/embedding/initial_values.py has its twin in NumPy.

#pragma once

#include <cstdint>

namespace ctrlab::embedding {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

// One to one on 64 bits; each bit of the result depends on all of x (the last step of SplitMix64).
constexpr uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

constexpr uint64_t HashKey(int64_t key) { return Mix(static_cast<uint64_t>(key) + kGolden); }

// The part of a table that a shard holds: keys with HashKey(key) mod count == index.
struct Shard {
  uint64_t index = 0, count = 1;
  bool Has(int64_t key) const { return count == 1 || HashKey(key) % count == index; }
};

}  // namespace ctrlab::embedding
