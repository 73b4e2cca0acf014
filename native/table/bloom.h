// A counting Bloom filter: how often a key came, for a few bytes a key expected; never too low, up to where its counters stop.
//
//   n keys expected, rate p:  m = ceil(-n ln p / (ln 2)^2) counters, k = max(1, round(m / n ln 2)) of them a key
//   counter i of a key        ((h + i (Mix(h) | 1)) high 64 bits of the product with m), h = HashKey(key)
//   count                     the least of its counters, which stop at the most that their 1, 2 or 4 bytes hold
//
// A counter is as wide as the threshold asks for, so that no key reaches it too late.

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

  // Any thread may add at any time: what the counters hold in the end does not depend on the order.
  void Add(int64_t key, int64_t count);
  int64_t Count(int64_t key) const;  // when no thread adds

  // What the counters of keys[i], for i in `which`, are; and back to that, when no thread adds. The first throws std::bad_alloc.
  struct Counters {
    std::vector<int64_t> places;
    std::vector<uint32_t> values;
  };
  Counters Before(const std::vector<int64_t>& which, const int64_t* keys) const;
  void Restore(const Counters& before);

  // Each counter becomes at least that of another filter of the same size.
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
