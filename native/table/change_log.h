// Which keys changed since when, for any number of consumers: a saver of deltas, servers that are kept up to date.
//
// Keys are noted in intervals, which end at cuts. What a consumer is given is, of each key in the intervals since its version,
// what the table holds now; of a key that the table has nothing of, that it went. So the log keeps no values and no removals
// apart from changes.
//
//   version    a number of the table's own, which never falls: raised at each cut, at a consumer's first too, and whenever all
//              must start anew
//   Cut        what the consumer has to be given; it has it once it Confirms. Not confirmed, the next cut gives it again
//   bound      the log holds at most max(65,536, rows) keys; the oldest intervals go first. A consumer that needed one is
//              forgotten, and a consumer that the log does not know is given everything. Consumers are as many as come
//
// Without a consumer nothing is to be noted. Whoever owns the log keeps for each key whether it is in the list of the interval
// that runs, and clears that where it is told to, so that a key is noted once an interval; twice does no harm.
//
// Not for several threads at once, but for Note: one thread a shard.

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
  using Clear = std::function<void(int64_t key)>;  // the key is in no list of the interval that runs; must not throw

  explicit ChangeLog(int64_t shards) : running_(shards) {}

  bool on() const { return !consumers_.empty(); }
  int64_t version() const { return version_; }
  int64_t size() const;   // keys in all lists
  int64_t bytes() const;  // of memory

  // Room to Note so many keys in each shard. Where that is beyond the bound, intervals go, and with them consumers. Throws
  // std::bad_alloc.
  void Reserve(const std::vector<int64_t>& more, int64_t rows, const Clear& clear);
  void Note(int64_t shard, int64_t key) { running_[shard].push_back(key); }

  // What a cut for a consumer is about: everything, or `keys`, ascending, each once. A cut that fails needs no End.
  // Throws std::bad_alloc.
  struct Interval {
    std::string consumer;
    int64_t since = -1;  // the consumer's version; -1: it is given everything
    std::vector<int64_t> keys;
    std::vector<int64_t> last;  // of these, those of the interval that runs
  };
  Interval Begin(const std::string& consumer);
  // The interval ends here; returns its version. Cannot fail.
  int64_t End(Interval interval, const Clear& clear) noexcept;

  // The consumer has what its cut of this version gave: of those since it last confirmed one, or, where it has not, the last. One
  // that was forgotten meanwhile stays so.
  Status Confirm(const std::string& consumer, int64_t version);
  // The consumer has all that there is now; returns the version. Throws std::bad_alloc.
  int64_t CaughtUp(const std::string& consumer, const Clear& clear);
  void Forget(const std::string& consumer, const Clear& clear);
  // All consumers are given everything from here on, for the table holds something else.
  void StartAnew(const Clear& clear);

 private:
  struct Consumer {
    int64_t has = -1;      // the version that it confirmed
    int64_t offered = -1;  // that of its last cut
    int64_t needs() const { return has >= 0 ? has : offered; }
  };
  struct Ended {
    int64_t version;  // in which a consumer has these
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
