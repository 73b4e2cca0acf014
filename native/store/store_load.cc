// Opens a store's folder: first the segments, then the index from all their records.

#include <algorithm>
#include <memory>

#include "store/manifest.h"
#include "store/store_state.h"

namespace ctrlab::embedding {

namespace {

constexpr uint32_t kAtOnce = 4096;  // records per growth of the index

}  // namespace

Status Store::Load() {
  std::vector<uint64_t> numbers;
  if (Status status = FindFiles(&numbers); !status.ok()) return status;
  for (const uint64_t number : numbers) {
    if (Status status = AddFile(number); !status.ok()) return status;
  }
  if (Status status = DropAfterGap(); !status.ok()) return status;
  FillIndex();
  // Nothing is refused any more, so files may be changed from here on.
  for (const auto& segment : *segments_) {
    if (!segment->sealed) {
      if (Status status = SealWritten(*segment, options_.row_bytes); !status.ok()) return status;
      segment->sealed = true;
    }
    IndexEntries(memory_.get()).swap(segment->entries);
  }
  durable_ = next_sequence_ - 1;
  if (Status status = SaveManifest(); !status.ok()) return status;
  loaded_ = true;
  if (options_.compaction == Compaction::kAsync) {
    compaction_ = std::make_unique<Worker>("ctrlab-store", [this](const auto&) { return CompactInBackground(); });
  }
  return Status();
}

// The numbers of the folder's files, ascending, checked against the manifest.
Status Store::FindFiles(std::vector<uint64_t>* numbers) {
  std::vector<std::string> names;
  if (Status status = NamesIn(options_.path, &names); !status.ok()) return status;
  for (const std::string& name : names) {
    if (!name.ends_with(".seg")) continue;
    numbers->push_back(SegmentNumber(name));
    if (numbers->back() == 0) {
      return Status("A store's segments have names like " + SegmentName(1) + "; " + options_.path + "/" + name +
                    " is none of them; move it away.");
    }
  }
  std::sort(numbers->begin(), numbers->end());
  bool there;
  Manifest manifest;
  if (Status status = ReadManifest(options_.path, &there, &manifest); !status.ok()) return status;
  if (!there) {
    if (!numbers->empty()) {
      warnings_.push_back(
          "The store in " + options_.path +
          " has no MANIFEST, so a segment that is missing would not be noticed; those that there are were taken.");
    }
    durable_ = ~uint64_t{0};
    return options_.scratch ? Status() : SyncNameOf(options_.path);  // even if another process made it
  }
  for (const uint64_t number : manifest.segments) {
    if (std::binary_search(numbers->begin(), numbers->end(), number)) continue;
    return Status("All segments of a store must be there; " + options_.path + "/" + SegmentName(number) +
                  " is missing; restore it from a copy, or remove " + options_.path + "/MANIFEST to go on without its rows.");
  }
  for (const uint64_t number : *numbers) {
    if (number >= manifest.next || std::binary_search(manifest.segments.begin(), manifest.segments.end(), number)) continue;
    leftovers_.push_back(options_.path + "/" + SegmentName(number));
    if (Status status = CheckSegment(leftovers_.back(), number, options_.row_bytes); !status.ok()) return status;
  }
  std::erase_if(*numbers, [&](uint64_t number) {
    return number < manifest.next && !std::binary_search(manifest.segments.begin(), manifest.segments.end(), number);
  });
  next_number_ = manifest.next;
  durable_ = manifest.durable;
  next_sequence_ = durable_ + 1;
  return Status();
}

Status Store::AddFile(uint64_t number) {
  const std::string path = options_.path + "/" + SegmentName(number);
  LoadedSegment loaded;
  Status status = LoadSegment(path, number, options_.row_bytes, options_.direct, memory_, &loaded);
  if (!status.ok()) return status;
  next_number_ = std::max(next_number_, number + 1);
  if (!loaded.segment || loaded.segment->records == 0) leftovers_.push_back(path);
  if (!loaded.warning.empty()) warnings_.push_back(loaded.warning);
  stats_.dropped_records += loaded.dropped_records;
  if (loaded.segment && loaded.segment->records > 0) Publish([&](SegmentTable* table) { table->push_back(loaded.segment); });
  return Status();
}

// After a loss of power, records may exist that follow lost ones.
Status Store::DropAfterGap() {
  SegmentTable later;
  for (const auto& segment : *segments_) {
    if (segment->highest > durable_) later.push_back(segment);
  }
  std::sort(later.begin(), later.end(), [](const auto& a, const auto& b) { return a->lowest < b->lowest; });
  for (const auto& segment : later) {
    if (segment->lowest <= durable_ + 1) {
      durable_ = std::max(durable_, segment->highest);
      continue;
    }
    const std::string lost = "record number " + std::to_string(durable_ + 1);
    if (segment->committed > 0) {
      return Status("All that was flushed must be there; " + segment->path + " was after " + lost +
                    ", which is in no segment of " + options_.path +
                    "; restore the folder from a copy, or read what is whole by the command ctrlab embedding salvage.");
    }
    warnings_.push_back(segment->path + " holds records that were written after " + lost + ", which a loss of power took; its " +
                        std::to_string(segment->records) + " records are dropped.");
    stats_.dropped_records += segment->records;
    leftovers_.push_back(segment->path);
    Publish([&](SegmentTable* table) { std::erase(*table, segment); });
  }
  return Status();
}

// Keeps for each key the record with the highest sequence number.
void Store::FillIndex() {
  const SegmentTable& segments = *segments_;
  auto entry_at = [&](Location at) { return segments[at.segment]->entries[at.record]; };
  for (uint32_t slot = 0; slot < segments.size(); ++slot) {
    const IndexEntries& entries = segments[slot]->entries;
    total_ += std::ssize(entries);
    std::vector<int64_t> keys;
    for (uint32_t record = 0; record < entries.size(); ++record) {
      if (record % kAtOnce == 0) {
        keys.clear();
        for (uint32_t next = record; next < std::min<size_t>(entries.size(), record + kAtOnce); ++next)
          keys.push_back(entries[next].key);
        GrowIndex(keys.data(), std::ssize(keys));
      }
      const IndexEntry& entry = entries[record];
      if (entry.kind() == RecordKind::kCommit) continue;
      next_sequence_ = std::max(next_sequence_, entry.sequence() + 1);
      const Location before = index_.Find(entry.key);
      if (!before.found() || entry_at(before).sequence() < entry.sequence()) index_.Set(entry.key, {slot, record});
    }
  }
  for (uint32_t slot = 0; slot < segments.size(); ++slot) {
    const IndexEntries& entries = segments[slot]->entries;
    for (uint32_t record = 0; record < entries.size(); ++record) {
      const IndexEntry& entry = entries[record];
      if (entry.kind() == RecordKind::kCommit || index_.Find(entry.key) != Location{slot, record}) continue;
      if (entry.kind() == RecordKind::kRow) {
        ++segments[slot]->live;
      } else {
        segments[slot]->tombstones.Add({entry.key, entry.sequence()}, 0);
        index_.Erase(entry.key);
      }
    }
  }
}

}  // namespace ctrlab::embedding
