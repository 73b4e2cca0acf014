// Logs which keys changed since when, for any number of consumers: a saver of deltas, servers that are kept up to date.
//
// Keys are logged in intervals that end at cuts. A consumer gets, for each key in the intervals since its version, the table's
// current content, or the information that the key is gone. So the log stores keys only: no values, and no separate list of
// removals.
//
//   version    the table's own number, which never decreases. Each cut raises it, including a consumer's first, and so does every
//              event after which all consumers must start again
//   Cut        what the consumer must be given; it has it after Confirm. Without Confirm, the next cut gives it again
//   bound      the log holds at most max(65,536, rows) keys and drops the oldest intervals first. A consumer that needed a
//              dropped interval is forgotten. A consumer that the log does not know is given everything. Any number may come
//
// Without consumers nothing needs to be logged. For each key, the log's owner stores whether it is in the list of the current
// interval, and clears this mark when told to. So a key is logged once per interval; twice does no harm.
//
// Not thread-safe, except for Note: one thread per shard.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "store/status.h"

namespace ctrlab::embedding {

class ChangeLog {
 public:
  using Clear = std::function<void(int64_t key)>;  // the key is in no list of the current interval; must not throw

  explicit ChangeLog(int64_t shards) : running_(shards) {}

  bool on() const { return !consumers_.empty(); }
  int64_t version() const { return version_; }
  int64_t size() const;   // keys in all lists
  int64_t bytes() const;  // of memory

  // Reserves room to Note this many keys in each shard. Above the bound it drops intervals, and so consumers. Throws
  // std::bad_alloc.
  void Reserve(const std::vector<int64_t>& more, int64_t rows, const Clear& clear);
  void Note(int64_t shard, int64_t key) { running_[shard].push_back(key); }

  // The content of a cut for a consumer: everything, or `keys`, ascending and distinct. A cut that fails needs no End. Throws
  // std::bad_alloc.
  struct Interval {
    std::string consumer;
    int64_t since = -1;  // the consumer's version; -1: it gets everything
    std::vector<int64_t> keys;
    std::vector<int64_t> last;  // the part of `keys` from the current interval
  };
  Interval Begin(const std::string& consumer);
  // Ends the current interval; returns its version. Cannot fail.
  int64_t End(Interval interval, const Clear& clear) noexcept;

  // Says that the consumer has everything up to this version: that of its last cut, or of an earlier one since it last confirmed;
  // before its first confirmation only the last cut's. A consumer that was forgotten meanwhile stays forgotten.
  Status Confirm(const std::string& consumer, int64_t version);
  // Says that the consumer has the current content; returns its version. Throws std::bad_alloc.
  int64_t CaughtUp(const std::string& consumer, const Clear& clear);
  void Forget(const std::string& consumer, const Clear& clear);
  // Makes the next cut of every consumer give everything, because the table's whole content changed.
  void StartAnew(const Clear& clear);

 private:
  struct Consumer {
    int64_t has = -1;      // the version that it confirmed
    int64_t offered = -1;  // the version of its last cut
    int64_t needs() const { return has >= 0 ? has : offered; }
  };
  struct Ended {
    int64_t version;  // a consumer with this version has these changes
    std::vector<int64_t> keys;
  };

  void FreeWhatNobodyNeeds();
  void Stop(const Clear& clear);

  int64_t version_ = 0;
  std::map<std::string, Consumer> consumers_;
  std::vector<Ended> ended_;  // ascending
  std::vector<std::vector<int64_t>> running_;
};

}  // namespace ctrlab::embedding
