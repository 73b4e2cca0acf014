// The tier below a table's memory. A row is in memory or below, never in both.
//
//   raise   an update of a key whose row is below moves the row up; one read for all of a batch. A lookup reads rows where they
//           are, also in one read; then it moves up as many as memory has room for, but only if no writer is active: it never
//           waits for one
//   sink    when there is room for less than a sixteenth of `memory_rows`, a thread moves rows down until there is room for an
//           eighth. It takes the least recently used rows (LRU, by last step) or the least frequently used (LFU, by frequency,
//           ties by last step). An update that finds no room moves rows down itself, but never those of its own step. If these are
//           more than `memory_rows`, the memory holds all of them until the thread has moved some down
//
// The index tells which records below are valid: those whose key has no entry. A key with an entry (a row in memory, a candidate,
// or a removed key) has no row below. A record that the store still has for it is dead, and the thread erases it, in small
// pieces. So no call waits for the disk to erase, and a disk error loses nothing.
//
// Below is a SegmentStore, or anything with its interface; its rows are [value | slots | frequency | last step].
//
// A faster memory (HBM) above the table could use the table as the table uses its store: its index would tell which records in
// the table are valid, and the table would provide Get, Put and Erase for these records. It does not exist yet.
//
// The store is not a checkpoint: each table makes a new one. Checkpoints contain the rows of both tiers.

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

// The layout of a row of `width` floats below.
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

// Records of a table's rows that were read, in key order.
struct RecordsRead {
  std::vector<int64_t> keys;
  std::vector<float> numbers;  // floats, for their alignment: the values are used in place

  const char* At(int64_t k, const Record& record) const {
    return reinterpret_cast<const char*>(numbers.data()) + k * record.bytes();
  }
};

// Reads the records that the store has for these keys, in pieces of bounded size.
Status ReadRecords(SegmentStore& store, const Record& record, const std::vector<int64_t>& keys, const ParallelFor& parallel_for,
                   RecordsRead* read);

// Not thread-safe: the table's writer uses it.
class Tier {
 public:
  explicit Tier(TierOptions options) : options_(std::move(options)) {}

  const TierOptions& options() const { return options_; }
  // The number of rows for which memory should have room.
  int64_t spare() const { return (options_.memory_rows + 7) / 8; }
  // Rows in memory with a lower order move down first.
  uint64_t Order(uint32_t frequency, uint32_t step) const {
    return (options_.cache == Cache::kLfu ? uint64_t{frequency} << 32 : 0) | step;
  }

  bool open() const { return store_ != nullptr; }
  // Uses a new store, for rows of `width` floats.
  void Take(std::unique_ptr<SegmentStore> store, int64_t width) { store_ = std::move(store), record_ = {width}; }
  // Drops the store, as before the first Take; readers of it keep it until they are done.
  std::shared_ptr<SegmentStore> Leave() noexcept {
    std::vector<int64_t>().swap(dead_);
    dead_records_ = 0;
    return std::exchange(store_, nullptr);
  }
  // Swaps everything but the options, which are the same.
  void Swap(Tier& other) noexcept {
    store_.swap(other.store_), dead_.swap(other.dead_);
    std::swap(record_, other.record_), std::swap(dead_records_, other.dead_records_);
  }

  const std::shared_ptr<SegmentStore>& store() const { return store_; }
  const Record& record() const { return record_; }
  // 0 in a forked child, because the store gives it no statistics.
  int64_t rows() const { return store_ ? std::max<int64_t>(0, store_->Stats().live - dead_records_) : 0; }
  int64_t bytes() const { return (store_ ? store_->Stats().memory_bytes : 0) + static_cast<int64_t>(dead_.capacity()) * 8; }

  // Makes room to note `more` dead keys. Throws std::bad_alloc.
  void ReserveDead(int64_t more) {
    const size_t wanted = dead_.size() + more;
    if (wanted > dead_.capacity()) dead_.reserve(std::max(wanted, dead_.capacity() + dead_.capacity() / 2));
  }
  // These keys have an entry in the index now; `records` more records below are dead.
  void NoteDead(const std::vector<int64_t>& keys, int64_t records) {
    dead_.insert(dead_.end(), keys.begin(), keys.end());
    dead_records_ += records;
  }
  // `records` dead records were overwritten by valid ones, or erased.
  void FewerDead(int64_t records) { dead_records_ -= records; }
  std::vector<int64_t>& dead() { return dead_; }  // noted keys; some may have moved down again since
  // How many of these keys have a record in the store; needs no disk access.
  int64_t CountBelow(const std::vector<int64_t>& keys) const noexcept;

  // Calls visit(key, record) for each record, including dead ones.
  template <class Visit>
  Status ForEach(const Visit& visit) const;

 private:
  const TierOptions options_;
  std::shared_ptr<SegmentStore> store_;
  Record record_{0};
  std::vector<int64_t> dead_;
  int64_t dead_records_ = 0;
};

// The number of records that are processed at a time.
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
