// Tracks changed rows of a dense table for any number of consumers: a change log whose keys are the table's rows.
//
// A row is marked after it changed. So a change that a cut misses is in the interval after the cut, and none is lost.

#pragma once

#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "table/change_log.h"

namespace ctrlab::embedding {

// Thread-safe.
class RowChanges {
 public:
  explicit RowChanges(int64_t rows) : rows_(rows), marked_((rows + 63) / 64), log_(1) {}  // throws std::bad_alloc

  int64_t rows() const { return rows_; }

  // Marks these rows as changed, ids in [0, rows). If memory runs out, every consumer's next cut gives everything.
  void Mark(const int64_t* ids, int64_t count) {
    std::lock_guard lock(mutex_);
    if (!log_.on()) return;
    int64_t coming = 0;
    for (int64_t i = 0; i < count; ++i) coming += !Marked(ids[i]);
    if (coming == 0) return;
    try {
      log_.Reserve({coming}, rows_, clear_);
    } catch (const std::bad_alloc&) {
      log_.StartAnew(clear_);
    }
    if (!log_.on()) return;
    for (int64_t i = 0; i < count; ++i) {
      if (Marked(ids[i])) continue;
      marked_[ids[i] >> 6] |= uint64_t{1} << (ids[i] & 63);
      log_.Note(0, ids[i]);
    }
  }

  // Marks all rows as changed.
  void StartAnew() {
    std::lock_guard lock(mutex_);
    log_.StartAnew(clear_);
  }

  // The changes since the version that a consumer confirmed; or everything: since == -1, and no ids. Throws std::bad_alloc.
  struct Cut {
    int64_t since, version;
    std::vector<int64_t> ids;  // ascending
  };
  Cut CutFor(const std::string& consumer) {
    std::lock_guard lock(mutex_);
    ChangeLog::Interval interval = log_.Begin(consumer);
    Cut cut{interval.since, 0, std::move(interval.keys)};
    cut.version = log_.End(std::move(interval), clear_);
    return cut;
  }

  Status Confirm(const std::string& consumer, int64_t version) {
    std::lock_guard lock(mutex_);
    return log_.Confirm(consumer, version);
  }

  // Says that the consumer has the current content; gives its version. Throws std::bad_alloc.
  Status CaughtUp(const std::string& consumer, int64_t* version) {
    std::lock_guard lock(mutex_);
    *version = log_.CaughtUp(consumer, clear_);
    return Status();
  }

  void Forget(const std::string& consumer) {
    std::lock_guard lock(mutex_);
    log_.Forget(consumer, clear_);
  }

  // Bytes of memory.
  int64_t bytes() const {
    std::lock_guard lock(mutex_);
    return log_.bytes() + static_cast<int64_t>(marked_.capacity()) * 8;
  }

 private:
  bool Marked(int64_t id) const { return marked_[id >> 6] >> (id & 63) & 1; }

  const int64_t rows_;
  mutable std::mutex mutex_;
  std::vector<uint64_t> marked_;  // the rows in the list of the current interval, 64 per word
  ChangeLog log_;
  const ChangeLog::Clear clear_ = [this](int64_t id) { marked_[id >> 6] &= ~(uint64_t{1} << (id & 63)); };
};

}  // namespace ctrlab::embedding
