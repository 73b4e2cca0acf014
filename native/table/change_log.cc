#include "table/change_log.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "table/messages.h"
#include "table/sorted.h"

namespace ctrlab::embedding {
namespace {

constexpr int64_t kFewest = 65'536;  // minimum capacity of the log, in keys

}  // namespace

int64_t ChangeLog::size() const {
  int64_t keys = 0;
  for (const Ended& interval : ended_) keys += std::ssize(interval.keys);
  for (const auto& of_shard : running_) keys += std::ssize(of_shard);
  return keys;
}

int64_t ChangeLog::bytes() const {
  int64_t keys = 0, bytes = static_cast<int64_t>(ended_.capacity() * sizeof(Ended) + running_.capacity() * sizeof(running_[0]));
  for (const Ended& interval : ended_) keys += static_cast<int64_t>(interval.keys.capacity());
  for (const auto& of_shard : running_) keys += static_cast<int64_t>(of_shard.capacity());
  bytes += keys * 8;
  constexpr int64_t kLinks = 32;  // per node of the map
  for (const auto& one : consumers_) {
    const bool apart = one.first.capacity() >= sizeof one.first / 2;  // short strings are stored inside the string object
    bytes += static_cast<int64_t>(sizeof one + kLinks + (apart ? one.first.capacity() + 1 : 0));
  }
  return bytes;
}

void ChangeLog::Reserve(const std::vector<int64_t>& more, int64_t rows, const Clear& clear) {
  if (!on()) return;
  const int64_t bound = std::max(kFewest, rows);
  int64_t coming = 0;
  for (const int64_t n : more) coming += n;
  auto kept = ended_.begin();
  for (int64_t held = size(); kept != ended_.end() && held + coming > bound; ++kept) held -= std::ssize(kept->keys);
  if (kept != ended_.begin()) {
    const int64_t gone = std::prev(kept)->version;
    std::erase_if(consumers_, [&](const auto& one) { return one.second.needs() < gone; });
    ended_.erase(ended_.begin(), kept);
  }
  if (size() + coming > bound) {
    // Keys that went and came back are listed twice. If removing duplicates saves less than half, it would be repeated too often.
    for (auto& of_shard : running_) SortOnce(&of_shard);
    if (size() + coming > bound / 2) consumers_.clear();
  }
  if (!on()) return Stop(clear);
  for (size_t s = 0; s < more.size(); ++s) {
    auto& list = running_[s];
    const size_t wanted = list.size() + more[s];
    if (wanted > list.capacity()) list.reserve(std::max(wanted, list.capacity() + list.capacity() / 2));
  }
}

ChangeLog::Interval ChangeLog::Begin(const std::string& consumer) {
  Interval interval;
  interval.consumer = consumer;
  for (const auto& of_shard : running_) interval.last.insert(interval.last.end(), of_shard.begin(), of_shard.end());
  SortOnce(&interval.last);
  const auto found = consumers_.find(consumer);
  if (found != consumers_.end()) interval.since = found->second.has;
  if (interval.since >= 0) {
    interval.keys = interval.last;
    for (const Ended& ended : ended_) {
      if (ended.version > interval.since) interval.keys.insert(interval.keys.end(), ended.keys.begin(), ended.keys.end());
    }
    SortOnce(&interval.keys);
  }
  ended_.reserve(ended_.size() + 1);
  // Registers it for End. It is given everything, and it can't confirm a cut from before it was forgotten.
  if (found == consumers_.end()) consumers_[consumer].offered = ++version_;
  return interval;
}

int64_t ChangeLog::End(Interval interval, const Clear& clear) noexcept {
  for (const int64_t key : interval.last) clear(key);
  for (auto& of_shard : running_) of_shard.clear();
  ++version_;
  if (!interval.last.empty()) ended_.push_back({version_, std::move(interval.last)});
  if (const auto found = consumers_.find(interval.consumer); found != consumers_.end()) found->second.offered = version_;
  FreeWhatNobodyNeeds();
  return version_;
}

Status ChangeLog::Confirm(const std::string& consumer, int64_t version) {
  const auto found = consumers_.find(consumer);
  if (found == consumers_.end()) return Status();
  Consumer& one = found->second;
  if (one.has >= 0 && version == one.has) return Status();
  const bool given = one.has >= 0 ? version > one.has && version <= one.offered : version == one.offered;
  if (!given) {
    return Problem("A consumer confirms the version of a cut that it was given; ", consumer, " confirms ", version,
                   ", its last cut was of version ", one.offered, ".");
  }
  one.has = version;
  FreeWhatNobodyNeeds();
  return Status();
}

int64_t ChangeLog::CaughtUp(const std::string& consumer, const Clear& clear) {
  const int64_t version = End(Begin(consumer), clear);
  consumers_[consumer].has = version;
  FreeWhatNobodyNeeds();
  return version;
}

void ChangeLog::Forget(const std::string& consumer, const Clear& clear) {
  consumers_.erase(consumer);
  if (!on()) return Stop(clear);
  FreeWhatNobodyNeeds();
}

void ChangeLog::StartAnew(const Clear& clear) {
  consumers_.clear();
  Stop(clear);
  ++version_;
}

void ChangeLog::Stop(const Clear& clear) {
  for (auto& of_shard : running_) {
    for (const int64_t key : of_shard) clear(key);
    std::vector<int64_t>().swap(of_shard);
  }
  std::vector<Ended>().swap(ended_);
}

void ChangeLog::FreeWhatNobodyNeeds() {
  int64_t least = version_;
  for (const auto& [name, consumer] : consumers_) least = std::min(least, consumer.needs());
  std::erase_if(ended_, [&](const Ended& interval) { return interval.version <= least; });
}

}  // namespace ctrlab::embedding
