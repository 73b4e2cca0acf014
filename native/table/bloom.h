// A counting Bloom filter: counts each key with a few bytes per expected key. Counts are never too low, until counters saturate.
//
//   n keys expected, rate p:  m = ceil(-n ln p / (ln 2)^2) counters, k = max(1, round(m / n ln 2)) counters per key
//   counter i of a key        ((h + i (Mix(h) | 1)) high 64 bits of the product with m), h = HashKey(key)
//   count                     the minimum of its counters, which saturate at the maximum of their 1, 2 or 4 bytes
//
// Counters are wide enough for the threshold, so that every key can reach it.

#pragma once

#include <cstdint>
#include <vector>

#include "table/options.h"
#include "table/pages.h"

namespace ctrlab::embedding {

class BloomFilter {
 public:
  BloomFilter() = default;                           // no counters
  explicit BloomFilter(const Admission& admission);  // throws std::bad_alloc

  int64_t bytes() const { return counters_ * width_; }
  uint8_t* data() const { return pages_.data<uint8_t>(); }

  // Thread-safe: the final counters do not depend on the order of additions.
  void Add(int64_t key, int64_t count);
  int64_t Count(int64_t key) const;  // while no thread adds

  // Saves the counters of keys[i], for i in `which`, and restores them, while no thread adds. Saving may throw std::bad_alloc.
  struct Counters {
    std::vector<int64_t> places;
    std::vector<uint32_t> values;
  };
  Counters Before(const std::vector<int64_t>& which, const int64_t* keys) const;
  void Restore(const Counters& before);

  // Sets each counter to the maximum of itself and that of another filter of the same size.
  void TakeLarger(const uint8_t* other);

 private:
  template <class Run>
  auto WithWidth(const Run& run) const;
  template <class Visit>
  void ForEach(int64_t key, const Visit& visit) const;

  Pages pages_;
  int64_t counters_ = 0, hashes_ = 0, width_ = 1;
};

}  // namespace ctrlab::embedding
