#include "store/segment_store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "store/manifest.h"
#include "store/no_throw.h"
#include "store/store_state.h"

namespace ctrlab::embedding {

namespace {

constexpr int64_t kFoundAtOnce = 4096;  // lookups before writers are let in again
constexpr int64_t kMostFull = 8;        // segments that wait to be sealed
constexpr int64_t kAhead = 8;           // distance between prefetching an index entry and using it

}  // namespace

Store::Store(const StoreOptions& options, std::unique_ptr<FolderLock> lock)
    : options_(options),
      record_bytes_(RecordBytes(options.row_bytes)),
      records_per_segment_(
          std::clamp<int64_t>((options.segment_bytes - RecordOffset(0, options.row_bytes)) / record_bytes_, 1, 1 << 30)),
      lock_(std::move(lock)),
      reader_(std::make_shared<RecordReader>(options.row_bytes, options.direct, memory_)),
      copies_{Appender(options.row_bytes, options.write_buffer, !options.scratch, memory_)},
      user_{Appender(options.row_bytes, options.write_buffer, !options.scratch, memory_)} {}

Store::~Store() {
  stop_ = true;
  compaction_ = nullptr;
  if (options_.scratch) return;
  // Errors are ignored: a caller that needs to know calls Flush first.
  for (Tail* tail : {&copies_, &user_}) Quietly([&] { return Close(tail); });
  Quietly([&] { return SealFull(); });
  if (loaded_) Quietly([&] { return SaveManifest(); });
}

void Store::Publish(const std::function<void(SegmentTable*)>& change) {
  auto table = std::make_shared<SegmentTable>(*segments_);
  change(table.get());
  segments_ = std::move(table);
  ++changes_;
}

const char* Store::InBuffer(Location at) const {
  for (const Tail* tail : {&user_, &copies_}) {
    if (tail->slot == at.segment) return tail->appender.InBuffer(at.record);
  }
  return nullptr;
}

void Store::Forget(Location at) {
  if (at.found()) --(*segments_)[at.segment]->live;
}

Status Store::WriteOut(Tail* tail, bool all) {
  if (Status status = tail->appender.Write(all); !status.ok()) return status;
  std::lock_guard lock(state_);
  tail->appender.Settle();
  return Status();
}

// Writes a commit after the tail's records: they, and all earlier records of users, are durable.
Status Store::NoteCommit(Tail* tail) {
  if (!tail->open() || tail->uncommitted == 0 || options_.scratch) return Status();
  tail->appender.Reserve(1);
  {
    std::lock_guard lock(state_);
    tail->appender.Append(RecordKind::kCommit, 0, 0, nullptr);
    tail->uncommitted = 0;
    ++total_;
  }
  return WriteOut(tail, true);
}

// Ends appending to the tail's segment; SealFull does the rest, which takes the disk a while.
Status Store::Close(Tail* tail) {
  if (!tail->open()) return Status();
  if (Status status = WriteOut(tail, true); !status.ok()) return status;
  std::lock_guard lock(state_);
  full_.push_back(tail->appender.segment());
  tail->appender.Close();
  tail->slot = Location::kNone;
  tail->uncommitted = 0;
  return Status();
}

Status Store::SealFull(int64_t left) {
  const auto next = [&] {
    std::shared_lock lock(state_);
    return std::ssize(full_) > left ? full_.front() : nullptr;
  };
  if (!next()) return Status();  // does not wait for another thread that seals
  std::lock_guard sealing(sealing_);
  while (const std::shared_ptr<Segment> segment = next()) {
    IndexEntries entries(memory_.get());  // large: freed when no lock is held
    if (!options_.scratch) {
      // An index must not name records that a loss of power could destroy, in this file or in earlier ones.
      if (Status status = segment->Sync(); !status.ok()) return status;
      if (Status status = SaveManifest(); !status.ok()) return status;
      if (Status status = SealWritten(*segment, options_.row_bytes); !status.ok()) return status;
    }
    segment->tombstones.Shrink();  // not read before the segment is sealed
    std::lock_guard lock(state_);
    segment->sealed = true;
    entries.swap(segment->entries);
    full_.erase(full_.begin());
  }
  return Status();
}

// Makes room for one more record.
Status Store::MakeRoom(Tail* tail) {
  if (tail->open() && tail->appender.segment()->records >= records_per_segment_) {
    if (Status status = Close(tail); !status.ok()) return status;
  }
  if (!tail->open()) {
    if (Status status = NewSegment(tail); !status.ok()) return status;
  }
  tail->appender.Reserve(kUnderLock);
  return tail->appender.Fits() ? Status() : WriteOut(tail, false);
}

Status Store::NewSegment(Tail* tail) {
  // Unsealed segments take memory, and a writer that is faster than the disk would never notice that the disk refuses.
  if (Status status = SealFull(kMostFull - 1); !status.ok()) {
    return Status("At most " + std::to_string(kMostFull) +
                  " full segments may wait to be sealed, so the store takes no more: " + status.problem());
  }
  std::lock_guard naming(naming_);  // a concurrent manifest would treat the file as one that compaction removed
  uint64_t number;
  {
    std::lock_guard lock(state_);
    number = next_number_++;
  }
  if (Status status = tail->appender.Create(options_.path, number, records_per_segment_, options_.direct); !status.ok())
    return status;
  std::lock_guard lock(state_);
  uint32_t slot;
  Publish([&](SegmentTable* table) {
    const auto free = std::find(table->begin(), table->end(), nullptr);
    slot = static_cast<uint32_t>(free - table->begin());
    if (free == table->end()) table->emplace_back();
    (*table)[slot] = tail->appender.segment();
  });
  tail->slot = slot;
  return Status();
}

// Writes a new manifest if the list of segments changed, then deletes the files that are in no list any more.
Status Store::SaveManifest() {
  std::lock_guard saving(saving_);
  Manifest manifest;
  std::vector<std::string> leftovers;
  uint64_t changes;
  {
    std::lock_guard naming(naming_);
    std::shared_lock lock(state_);
    changes = changes_;
    leftovers = leftovers_;
    manifest.next = next_number_;
    manifest.durable = durable_;
    for (const auto& segment : *segments_) {
      if (segment) manifest.segments.push_back(segment->number);
    }
  }
  if (changes != saved_changes_ && !options_.scratch) {
    std::sort(manifest.segments.begin(), manifest.segments.end());
    if (Status status = WriteManifest(options_.path, manifest); !status.ok()) return status;
    saved_changes_ = changes;
  }
  for (const std::string& path : leftovers) {
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return SystemError("Can't remove the segment " + path + ", which is empty");
    std::lock_guard lock(state_);
    std::erase(leftovers_, path);
  }
  return Status();
}

Status Store::Write(RecordKind kind, const int64_t* keys, const char* rows, int64_t count) {
  std::unique_lock writing(writing_);
  if (kind == RecordKind::kTombstone && options_.scratch) EraseInMemory(keys, std::exchange(count, 0));
  for (int64_t i = 0; i < count;) {
    if (Status status = MakeRoom(&user_); !status.ok()) return status;
    Segment& segment = *user_.appender.segment();
    const int64_t last = std::min({count, i + kUnderLock, i + records_per_segment_ - segment.records});
    std::lock_guard changing(changing_);
    if (kind == RecordKind::kRow) GrowIndex(keys + i, last - i);
    std::lock_guard lock(state_);
    for (int64_t ahead = i; ahead < last; ++ahead) index_.Prefetch(keys[ahead]);
    for (; i < last && user_.appender.Fits(); ++i) {
      const Location here{user_.slot, static_cast<uint32_t>(segment.records)};
      uint32_t holder = 0;
      if (kind == RecordKind::kTombstone) {
        const Location before = index_.Erase(keys[i]);
        if (!before.found()) continue;
        Forget(before);
        holder = before.segment;
      } else {
        Forget(index_.Set(keys[i], here));
        ++segment.live;
      }
      user_.appender.Append(kind, next_sequence_++, keys[i], rows ? rows + i * options_.row_bytes : nullptr, holder);
      ++user_.uncommitted, ++total_;
      stats_.user_bytes += record_bytes_;
    }
  }
  writing.unlock();
  if (std::shared_lock lock(state_); !ThereIs(Garbage::kTooMuch) && full_.empty()) return Status();
  if (options_.compaction == Compaction::kSync) return CompactWhile(Garbage::kTooMuch);
  compaction_->Wake();
  return Status();
}

// No file needs to record this, because the files are never opened again.
void Store::EraseInMemory(const int64_t* keys, int64_t count) {
  for (int64_t i = 0; i < count;) {
    std::lock_guard changing(changing_);
    std::lock_guard lock(state_);
    const int64_t last = std::min(count, i + kUnderLock);
    for (int64_t ahead = i; ahead < last; ++ahead) index_.Prefetch(keys[ahead]);
    for (; i < last; ++i) Forget(index_.Erase(keys[i]));
  }
}

// Readers use the old index while a shard's entries are moved, so that no lock of the state is held for that long.
void Store::GrowIndex(const int64_t* keys, int64_t count) {
  index_.ForEachTooSmall(keys, count, [&](int64_t shard, int64_t entries) {
    StoreIndex::Places places = index_.Grown(shard, entries);
    std::lock_guard lock(state_);
    index_.Replace(shard, &places);
  });
}

Status Store::Put(const int64_t* keys, const void* rows, int64_t count) {
  return Write(RecordKind::kRow, keys, static_cast<const char*>(rows), count);
}

Status Store::Erase(const int64_t* keys, int64_t count) { return Write(RecordKind::kTombstone, keys, nullptr, count); }

Status Store::Get(const int64_t* keys, int64_t count, void* rows, uint8_t* found, const ParallelFor& parallel_for) {
  auto* const out = static_cast<char*>(rows);
  std::vector<WantedRecord> wanted;
  std::vector<std::shared_ptr<const SegmentTable>> tables;  // keep the files open until everything is read
  std::vector<Location> places(std::min(count, kFoundAtOnce));
  for (int64_t first = 0; first < count; first += kFoundAtOnce) {
    const int64_t n = std::min(count - first, kFoundAtOnce);
    std::shared_lock lock(state_);
    if (tables.empty() || tables.back() != segments_) tables.push_back(segments_);
    for (int64_t i = 0; i < n; ++i) {
      if (i + kAhead < n) index_.Prefetch(keys[first + i + kAhead]);
      places[i] = index_.Find(keys[first + i]);
    }
    for (int64_t i = 0; i < n; ++i) {
      const int64_t place = first + i;
      found[place] = 0;
      if (!places[i].found()) continue;
      if (const char* record = InBuffer(places[i])) {
        std::memcpy(out + place * options_.row_bytes, record + sizeof(RecordHeader), options_.row_bytes);
        found[place] = 1;
      } else {
        wanted.push_back({(*segments_)[places[i].segment].get(), places[i].record, keys[place], place});
      }
    }
  }
  return reader_->Read(&wanted, out, found, parallel_for);
}

Status Store::Find(const int64_t* keys, int64_t count, uint8_t* found) {
  for (int64_t first = 0; first < count; first += kFoundAtOnce) {
    const int64_t last = std::min(count, first + kFoundAtOnce);
    std::shared_lock lock(state_);
    for (int64_t i = first; i < last; ++i) {
      if (i + kAhead < last) index_.Prefetch(keys[i + kAhead]);
      found[i] = index_.Find(keys[i]).found();
    }
  }
  return Status();
}

// Syncs what users wrote. Without `commit` no writer waits for the disk, and the file does not record the sync.
Status Store::SyncUser(bool commit) {
  if (options_.scratch) return Status();
  std::unique_lock writing(writing_);
  std::vector<std::shared_ptr<Segment>> segments;
  {
    std::shared_lock lock(state_);
    segments = full_;
  }
  if (user_.open()) {
    if (user_.uncommitted > 0) {
      if (Status status = WriteOut(&user_, true); !status.ok()) return status;
    }
    segments.push_back(user_.appender.segment());
  }
  const uint64_t written = next_sequence_ - 1;
  if (!commit) writing.unlock();
  for (const auto& segment : segments) {
    if (Status status = segment->Sync(); !status.ok()) return status;
  }
  {
    std::lock_guard lock(state_);
    durable_ = std::max(durable_, written);
  }
  if (!commit) return Status();
  if (Status status = SaveManifest(); !status.ok()) return status;
  return NoteCommit(&user_);
}

Status Store::Flush() { return SyncUser(true); }

StoreStats Store::Stats() {
  std::shared_lock lock(state_);
  StoreStats stats = stats_;
  stats.live = index_.size();
  stats.total = total_;
  stats.memory_bytes = memory_->bytes() + index_.bytes();
  stats.reads = reader_->reads();
  stats.compacting = compacting_now_;
  for (const auto& segment : *segments_) {
    if (!segment) continue;
    ++stats.segments;
    stats.disk_bytes += RecordOffset(segment->records, options_.row_bytes) +
                        (segment->sealed ? segment->records * static_cast<int64_t>(sizeof(IndexEntry)) + 32 : 0);
  }
  stats.pending_bytes = user_.uncommitted * record_bytes_;
  return stats;
}

std::vector<std::string> Store::Warnings() {
  std::shared_lock lock(state_);
  return warnings_;
}

void Store::Warn(std::string sentence) {
  std::lock_guard lock(state_);
  if (std::find(warnings_.begin(), warnings_.end(), sentence) == warnings_.end()) warnings_.push_back(std::move(sentence));
}

}  // namespace ctrlab::embedding
