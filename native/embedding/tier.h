// The tier below a table's memory: a row is in the one or in the other, never in both.
//
//   raise   an update of a key whose row is below brings it up, all of a batch in one read. A lookup reads rows where they are,
//           all in one read too; then it brings up as many as the memory has room for, unless a writer is at work: it waits for
//           none
//   sink    when fewer rows than a sixteenth of `memory_rows` may still come, a thread sinks rows until it is an eighth: those
//           unused for longest (LRU, by last step) or least often used (LFU, by frequency, ties by last step). An update that
//           finds no room sinks as many itself; never those of its own step, so where these are more than `memory_rows`, the
//           memory holds them all until the thread has come to them
//
// What is below is a SegmentStore, or anything with its interface; its rows are [value | slots | frequency | last step].
//
// The interface for a faster memory (HBM) in front of a table is the same one turned round: the front is to the table what the
// table is to its store. Whoever writes one gives the table a SegmentStore's Get, Put and Erase on these same records, and keeps
// to what the table keeps to here:
//   - a row that the front has stepped is the only true one: Export, Evict and Import first Put it back, or count and erase it;
//   - Get, insert in front, then Erase below, and Put below, then remove in front: so a reader that finds a key in neither, and
//     looks in front once more, has seen all; and a step publishes its rows while no reader is inside;
//   - a Put that fails is undone by an Erase before anything takes the row out of the front.
// There is none yet.
//
// The store is no save: opened, it is emptied, if a tier has made it. Checkpoints hold the rows of both tiers.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <unordered_set>
#include <vector>

#include "embedding/segment_store.h"
#include "embedding/status.h"

namespace ctrlab::embedding {

enum class Cache : int64_t { kLru = 0, kLfu = 1 };

// Opens the store for rows of so many bytes.
using OpenStore = std::function<Status(int64_t row_bytes, std::unique_ptr<SegmentStore>* store)>;

struct TierOptions {
  OpenStore open;
  int64_t memory_rows = 0;
  Cache cache = Cache::kLfu;
};

class Tier {
 public:
  explicit Tier(TierOptions options) : options_(std::move(options)) {}

  const TierOptions& options() const { return options_; }

  // Open, empty, for rows of `width` floats; nothing where it is.
  Status Open(int64_t width);
  // Forgets all rows, which the store is rid of when it is opened again; not open till then.
  void Clear();
  // Back to not open; refused while rows are below.
  Status Close();
  bool open() const { return store_ != nullptr; }

  // Rows that the memory should have room for.
  int64_t spare() const { return (options_.memory_rows + 7) / 8; }

  int64_t rows() const { return store_ ? store_->Stats().live : 0; }
  int64_t bytes() const { return store_ ? store_->Stats().memory_bytes : 0; }
  SegmentStore& store() const { return *store_; }

  int64_t row_bytes() const { return 4 * width_ + 8; }
  // Of rows in memory, those of a lower order sink first.
  uint64_t Order(uint32_t frequency, uint32_t step) const {
    return (options_.cache == Cache::kLfu ? uint64_t{frequency} << 32 : 0) | step;
  }
  uint32_t Frequency(const char* record) const { return Number(record, 4 * width_); }
  uint32_t Step(const char* record) const { return Number(record, 4 * width_ + 4); }
  void Write(char* record, const float* row, uint32_t frequency, uint32_t step) const {
    std::memcpy(record, row, 4 * width_);
    std::memcpy(record + 4 * width_, &frequency, 4);
    std::memcpy(record + 4 * width_ + 4, &step, 4);
  }

  // Takes keys out that are in memory, now or, where the store's disk refuses, by the next Settle: that comes before anything
  // that takes a row out of the memory or counts those below.
  void Erase(const std::vector<int64_t>& keys);
  Status Settle();
  // So that an Erase of so many keys does not fail for memory. Throws std::bad_alloc.
  void ReserveErase(int64_t count) { to_erase_.reserve(to_erase_.size() + count); }

  // Calls visit(key, record) for all that is below.
  template <class Visit>
  Status ForEach(const Visit& visit) const;
  // The same for these keys, all of them below.
  template <class Visit>
  Status ForEachOf(const std::vector<int64_t>& keys, const ParallelFor& parallel_for, const Visit& visit) const;

  std::unordered_set<int64_t> changed;  // keys below that changed since the last save

 private:
  static constexpr int64_t kAtATime = 4096;

  Status EraseAll();

  uint32_t Number(const char* record, int64_t place) const {
    uint32_t number;
    std::memcpy(&number, record + place, 4);
    return number;
  }

  const TierOptions options_;
  std::unique_ptr<SegmentStore> store_;
  std::vector<int64_t> to_erase_;
  int64_t width_ = 0;
};

template <class Visit>
Status Tier::ForEach(const Visit& visit) const {
  if (!store_) return Status();
  std::unique_ptr<StoreSnapshot> snapshot;
  if (Status bad = store_->Snapshot(&snapshot); !bad.ok()) return bad;
  std::vector<int64_t> keys(kAtATime);
  std::vector<char> records(kAtATime * row_bytes());
  for (;;) {
    int64_t count = 0;
    if (Status bad = snapshot->Next(kAtATime, keys.data(), records.data(), &count); !bad.ok()) return bad;
    if (count == 0) return Status();
    for (int64_t i = 0; i < count; ++i) visit(keys[i], records.data() + i * row_bytes());
  }
}

template <class Visit>
Status Tier::ForEachOf(const std::vector<int64_t>& keys, const ParallelFor& parallel_for, const Visit& visit) const {
  std::vector<char> records(kAtATime * row_bytes());
  std::vector<uint8_t> found(kAtATime);
  const int64_t size = static_cast<int64_t>(keys.size());
  for (int64_t begin = 0; begin < size; begin += kAtATime) {
    const int64_t count = std::min(kAtATime, size - begin);
    if (Status bad = store_->Get(keys.data() + begin, count, records.data(), found.data(), parallel_for); !bad.ok()) return bad;
    for (int64_t i = 0; i < count; ++i) {
      if (found[i]) visit(keys[begin + i], records.data() + i * row_bytes());
    }
  }
  return Status();
}

}  // namespace ctrlab::embedding
