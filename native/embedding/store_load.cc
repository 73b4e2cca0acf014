// A store's folder at Open: the segments, then the index from all their records.

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "store_state.h"

namespace ctrlab::embedding {

namespace {

// Of "0000000001.seg"; 0 where the name is none of ours.
uint64_t NumberOf(const std::string& name) {
  uint64_t number = 0;
  if (name.size() < 14 || !name.ends_with(".seg")) return 0;
  const char* end = name.data() + name.size() - 4;
  const auto [rest, error] = std::from_chars(name.data(), end, number);
  return error == std::errc() && rest == end ? number : 0;
}

}  // namespace

Status Store::Load() {
  std::vector<uint64_t> numbers;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(options_.path, error)) {
    if (const uint64_t number = NumberOf(file.path().filename().string())) numbers.push_back(number);
  }
  if (error) return Status("Can't read the store's folder " + options_.path + ": " + error.message() + ".");
  std::sort(numbers.begin(), numbers.end());
  for (const uint64_t number : numbers) {
    if (Status status = AddFile(number); !status.ok()) return status;
  }
  if (Status status = FillIndex(); !status.ok()) return status;
  if (options_.compaction == Compaction::kAsync) {
    thread_ = std::thread([this] { CompactInBackground(); });
    pthread_setname_np(thread_.native_handle(), "ctrlab-store");
  }
  return Status();
}

Status Store::AddFile(uint64_t number) {
  char name[32];
  std::snprintf(name, sizeof name, "/%010llu.seg", static_cast<unsigned long long>(number));
  LoadedSegment loaded;
  Status status = LoadSegment(options_.path + name, number, options_.row_bytes, options_.direct, &loaded);
  if (!status.ok()) return status;
  if (!loaded.warning.empty()) warnings_.push_back(loaded.warning);
  stats_.dropped_records += loaded.dropped_records;
  next_number_ = number + 1;
  if (!loaded.segment) return Status();
  if (loaded.segment->records == 0) {
    const std::string& path = loaded.segment->path;
    return unlink(path.c_str()) == 0 ? Status() : SystemError("Can't remove the empty segment " + path);
  }
  Publish([&](SegmentTable* table) { table->push_back(loaded.segment); });
  return Status();
}

// Of each key the record with the highest sequence number; then seals what was not, now that nothing is refused any more.
Status Store::FillIndex() {
  const SegmentTable& segments = *segments_;
  auto entry_at = [&](Location at) { return segments[at.segment]->entries[at.record]; };
  for (uint32_t slot = 0; slot < segments.size(); ++slot) {
    const std::vector<IndexEntry>& entries = segments[slot]->entries;
    total_ += std::ssize(entries);
    for (uint32_t record = 0; record < entries.size(); ++record) {
      const IndexEntry& entry = entries[record];
      if (entry.kind() == RecordKind::kCommit) continue;
      next_sequence_ = std::max(next_sequence_, entry.sequence() + 1);
      const Location before = index_.Find(entry.key);
      if (!before.found() || entry_at(before).sequence() < entry.sequence()) index_.Set(entry.key, {slot, record});
    }
  }
  std::vector<int64_t> erased;
  index_.ForEach([&](const StoreIndex::Entry& found) {
    const IndexEntry entry = entry_at(found.at);
    if (entry.kind() == RecordKind::kTombstone) {
      erased.push_back(entry.key);
      segments[found.at.segment]->tombstones.push_back({entry.key, entry.sequence()});
    } else {
      ++segments[found.at.segment]->live;
    }
  });
  for (const int64_t key : erased) index_.Erase(key);
  for (const auto& segment : segments) {
    if (!segment->sealed) {
      if (Status status = SealWritten(*segment, options_.row_bytes); !status.ok()) return status;
      segment->sealed = true;
    }
    segment->entries = {};
  }
  return Status();
}

}  // namespace ctrlab::embedding
