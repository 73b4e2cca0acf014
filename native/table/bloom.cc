#include "table/bloom.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "store/hash.h"

namespace ctrlab::embedding {
namespace {

template <class Counter>
Counter Sum(Counter a, int64_t b) {
  constexpr int64_t most = std::numeric_limits<Counter>::max();
  return static_cast<Counter>(std::min(most, int64_t{a} + std::min(b, most)));
}

}  // namespace

BloomFilter::BloomFilter(const Admission& admission) {
  constexpr double ln2 = std::numbers::ln2;
  const double keys = static_cast<double>(admission.expected_keys);
  counters_ = static_cast<int64_t>(std::ceil(-keys * std::log(admission.false_positive_rate) / (ln2 * ln2)));
  hashes_ = std::max<int64_t>(1, std::lround(static_cast<double>(counters_) / keys * ln2));
  width_ = admission.threshold < 1 << 8 ? 1 : admission.threshold < 1 << 16 ? 2 : 4;
  pages_ = Pages(bytes());
}

template <class Run>
auto BloomFilter::WithWidth(const Run& run) const {
  if (width_ == 1) return run(pages_.data<uint8_t>());
  if (width_ == 2) return run(pages_.data<uint16_t>());
  return run(pages_.data<uint32_t>());
}

template <class Visit>
void BloomFilter::ForEach(int64_t key, const Visit& visit) const {
  uint64_t hash = HashKey(key);
  const uint64_t step = Mix(hash) | 1;
  for (int64_t i = 0; i < hashes_; ++i, hash += step) {
    visit(static_cast<int64_t>(static_cast<unsigned __int128>(hash) * static_cast<uint64_t>(counters_) >> 64));
  }
}

void BloomFilter::Add(int64_t key, int64_t count) {
  WithWidth([&]<class Counter>(Counter* counters) {
    ForEach(key, [&](int64_t place) {
      std::atomic_ref counter(counters[place]);
      Counter before = counter.load(std::memory_order_relaxed);
      while (!counter.compare_exchange_weak(before, Sum(before, count), std::memory_order_relaxed)) {
      }
    });
  });
}

int64_t BloomFilter::Count(int64_t key) const {
  return WithWidth([&]<class Counter>(Counter* counters) {
    int64_t count = std::numeric_limits<int64_t>::max();
    ForEach(key, [&](int64_t place) { count = std::min<int64_t>(count, counters[place]); });
    return count;
  });
}

BloomFilter::Counters BloomFilter::Before(const std::vector<int64_t>& which, const int64_t* keys) const {
  Counters before;
  before.places.reserve(which.size() * hashes_), before.values.reserve(which.size() * hashes_);
  WithWidth([&](const auto* counters) {
    for (const int64_t i : which) {
      ForEach(keys[i], [&](int64_t place) { before.places.push_back(place), before.values.push_back(counters[place]); });
    }
  });
  return before;
}

void BloomFilter::Restore(const Counters& before) {
  WithWidth([&]<class Counter>(Counter* counters) {
    for (size_t i = 0; i < before.places.size(); ++i) counters[before.places[i]] = static_cast<Counter>(before.values[i]);
  });
}

void BloomFilter::TakeLarger(const uint8_t* other) {
  WithWidth([&]<class Counter>(Counter* counters) {
    for (int64_t i = 0; i < counters_; ++i) {
      Counter counter;
      std::memcpy(&counter, other + i * width_, sizeof counter);
      counters[i] = std::max(counters[i], counter);
    }
  });
}

}  // namespace ctrlab::embedding
