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
// The index says which record below is true: one whose key has no entry. A key with an entry (a row in memory, a candidate, or
// gone) has no row below, whatever the store still holds under it: a dead record, which the thread erases, a piece at a time.
// So nobody else waits for the disk to forget, and a disk that refuses to loses nothing.
//
// What is below is a SegmentStore, or anything with its interface; its rows are [value | slots | frequency | last step].
//
// A faster memory (HBM) in front of a table would be to the table what the table is to its store: its index says which record in
// the table is true, and the table gives it Get, Put and Erase on these same records. There is none yet.
//
// The store is no save: each table makes a new one. Checkpoints hold the rows of both tiers.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "store/scratch.h"
#include "store/segment_store.h"
#include "store/status.h"

namespace ctrlab::embedding {

enum class Cache : int64_t { kLru = 0, kLfu = 1 };

struct TierOptions {
  OpenStore open;
  int64_t memory_rows = 0;
  Cache cache = Cache::kLfu;
};

// How a row of `width` floats lies below.
struct Record {
  int64_t width;

  int64_t bytes() const { return 4 * width + 8; }
  uint32_t Frequency(const char* record) const { return Number(record, 4 * width); }
  uint32_t Step(const char* record) const { return Number(record, 4 * width + 4); }
  void Write(char* record, const float* row, uint32_t frequency, uint32_t step) const {
    std::memcpy(record, row, 4 * width);
    std::memcpy(record + 4 * width, &frequency, 4);
    std::memcpy(record + 4 * width + 4, &step, 4);
  }

 private:
  static uint32_t Number(const char* record, int64_t place) {
    uint32_t number;
    std::memcpy(&number, record + place, 4);
    return number;
  }
};

// Records of a table's rows that were read, in the order of their keys.
struct RecordsRead {
  std::vector<int64_t> keys;
  std::vector<float> numbers;  // floats, for their alignment: the values are used where they lie

  const char* At(int64_t k, const Record& record) const {
    return reinterpret_cast<const char*>(numbers.data()) + k * record.bytes();
  }
};

// Of these keys those that the store has a record of, read in pieces of bounded memory.
Status ReadRecords(SegmentStore& store, const Record& record, const std::vector<int64_t>& keys, const ParallelFor& parallel_for,
                   RecordsRead* read);

// Not for several threads at once: the table's writer holds it.
class Tier {
 public:
  explicit Tier(TierOptions options) : options_(std::move(options)) {}

  const TierOptions& options() const { return options_; }
  // Rows that the memory should have room for.
  int64_t spare() const { return (options_.memory_rows + 7) / 8; }
  // Of rows in memory, those of a lower order sink first.
  uint64_t Order(uint32_t frequency, uint32_t step) const {
    return (options_.cache == Cache::kLfu ? uint64_t{frequency} << 32 : 0) | step;
  }

  bool open() const { return store_ != nullptr; }
  // A new store, for rows of `width` floats.
  void Take(std::unique_ptr<SegmentStore> store, int64_t width) { store_ = std::move(store), record_ = {width}; }
  // No store, as before the first Take; who reads it keeps it until they are done.
  std::shared_ptr<SegmentStore> Leave() noexcept {
    std::vector<int64_t>().swap(dead_);
    dead_records_ = 0;
    return std::exchange(store_, nullptr);
  }
  // All but the options, which are the same.
  void Swap(Tier& other) noexcept {
    store_.swap(other.store_), dead_.swap(other.dead_);
    std::swap(record_, other.record_), std::swap(dead_records_, other.dead_records_);
  }

  const std::shared_ptr<SegmentStore>& store() const { return store_; }
  const Record& record() const { return record_; }
  // None in a child that was forked, whose store says nothing.
  int64_t rows() const { return store_ ? std::max<int64_t>(0, store_->Stats().live - dead_records_) : 0; }
  int64_t bytes() const { return (store_ ? store_->Stats().memory_bytes : 0) + static_cast<int64_t>(dead_.capacity()) * 8; }

  // Room to note so many dead keys. Throws std::bad_alloc.
  void ReserveDead(int64_t more) {
    const size_t wanted = dead_.size() + more;
    if (wanted > dead_.capacity()) dead_.reserve(std::max(wanted, dead_.capacity() + dead_.capacity() / 2));
  }
  // These keys have an entry in the index; so many of their records below are dead that were not.
  void NoteDead(const std::vector<int64_t>& keys, int64_t records) {
    dead_.insert(dead_.end(), keys.begin(), keys.end());
    dead_records_ += records;
  }
  // So many dead records were written anew, as true ones, or are erased.
  void FewerDead(int64_t records) { dead_records_ -= records; }
  std::vector<int64_t>& dead() { return dead_; }  // keys that were noted, some of which may have sunk again since
  // How many of these keys the store has a record of, which it knows without the disk.
  int64_t CountBelow(const std::vector<int64_t>& keys) const noexcept;

  // Calls visit(key, record) for each record, dead ones, too.
  template <class Visit>
  Status ForEach(const Visit& visit) const;

 private:
  const TierOptions options_;
  std::shared_ptr<SegmentStore> store_;
  Record record_{0};
  std::vector<int64_t> dead_;
  int64_t dead_records_ = 0;
};

// So many records are in work at a time.
inline int64_t RecordsAtATime(const Record& record) { return std::clamp<int64_t>((int64_t{4} << 20) / record.bytes(), 1, 4096); }

template <class Visit>
Status Tier::ForEach(const Visit& visit) const {
  if (!store_) return Status();
  std::unique_ptr<StoreSnapshot> snapshot;
  if (Status bad = store_->Snapshot(&snapshot); !bad.ok()) return bad;
  const int64_t most = std::min(RecordsAtATime(record_), snapshot->size());
  std::vector<int64_t> keys(most);
  std::vector<char> records(most * record_.bytes());
  while (most > 0) {
    int64_t count = 0;
    if (Status bad = snapshot->Next(most, keys.data(), records.data(), &count); !bad.ok()) return bad;
    if (count == 0) break;
    for (int64_t i = 0; i < count; ++i) visit(keys[i], records.data() + i * record_.bytes());
  }
  return Status();
}

}  // namespace ctrlab::embedding
