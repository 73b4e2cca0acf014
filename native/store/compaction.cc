// Compaction: copies the live records of a segment unchanged to the end of another one, syncs the copies, then removes the file.
//
// It is safe because, before a file is removed, its copies are durable, and so is every newer record that made others in it
// garbage. A tombstone is only dropped when no other file can hold an older record of its key, which would come back otherwise.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "store/no_throw.h"
#include "store/store_state.h"

namespace ctrlab::embedding {

namespace {

constexpr double kRecordsPerLive = 1.5;
constexpr int64_t kDeadRecords = 10'000'000;

}  // namespace

// The limit for "far too much" is twice the normal one, without the segments that are being written, which can't be compacted.
bool Store::ThereIs(Garbage garbage) const {
  if (garbage == Garbage::kAny) return true;
  int64_t total = total_;
  if (garbage == Garbage::kFarTooMuch) {
    for (const Tail* tail : {&user_, &copies_}) {
      if (tail->open()) total -= (*segments_)[tail->slot]->records;
    }
  }
  const int64_t times = garbage == Garbage::kFarTooMuch ? 2 : 1;
  return static_cast<double>(total) > times * kRecordsPerLive * static_cast<double>(index_.size()) ||
         total - index_.size() > times * kDeadRecords;
}

// A tombstone is needed while another segment may hold an older row of its key, unless a newer record made it garbage. Once it is
// not needed, it is never needed again: a newer record has its own tombstone, and no segment gets older records. So it is
// forgotten, and only the others are checked again. Most often the segment that holds the older row still exists, which ends the
// check.
void Store::FindGarbage(uint32_t slot) {
  std::shared_lock reading(state_);
  const std::shared_ptr<const SegmentTable> table = segments_;
  const uint64_t removals = removals_;
  std::vector<bool> may_hold(table->size());  // whether a segment has dead rows older than these tombstones
  for (uint32_t other = 0; other < table->size(); ++other) {
    const Segment* const found = (*table)[other].get();
    may_hold[other] = found && other != slot && other != user_.slot && found->dead_rows() > 0;
  }
  reading.unlock();
  Segment& segment = *(*table)[slot];
  const auto holds = [&](uint32_t other, const Tombstone& tombstone) {
    return other < may_hold.size() && may_hold[other] && (*table)[other]->lowest < tombstone.sequence &&
           (*table)[other]->filter.MayHold(tombstone.key);
  };
  const auto holder_of = [&](const Tombstone& tombstone, uint32_t last) {
    if (holds(last, tombstone)) return last;
    for (uint32_t other = 0; other < table->size(); ++other) {
      if (holds(other, tombstone)) return other;
    }
    return Location::kNone;
  };
  Tombstones needed(memory_.get());
  const Tombstones& now = segment.tombstones;
  std::array<bool, kUnderLock> newer;
  for (int64_t first = now.copied; first < std::ssize(now.all); first += kUnderLock) {
    const int64_t count = std::min(kUnderLock, std::ssize(now.all) - first);
    reading.lock();
    for (int64_t i = 0; i < count; ++i) index_.Prefetch(now.all[first + i].key);
    for (int64_t i = 0; i < count; ++i) newer[i] = index_.Find(now.all[first + i].key).found();
    reading.unlock();
    for (int64_t i = 0; i < count; ++i) {
      if (newer[i]) continue;
      const Tombstone& tombstone = now.all[first + i];
      if (const uint32_t holder = holder_of(tombstone, now.holders[first + i]); holder != Location::kNone)
        needed.Add(tombstone, holder);
    }
    if (stop_) return;
  }
  needed.Shrink();
  std::unique_lock lock(state_);
  segment.tombstones.swap(needed);
  segment.looked_at = removals;
  lock.unlock();  // before the old ones are freed
}

// The number of records that compacting the segment would free, as far as known, without tombstones that are still needed.
// Commits do not count, because they are no reason to copy all the others.
Store::Share Store::GarbageOf(const Segment& segment) const {
  const auto share = [&](int64_t garbage) { return static_cast<double>(garbage) / static_cast<double>(segment.records); };
  const int64_t garbage = segment.dead_rows() + segment.erasures;
  return {share(garbage - segment.tombstones.count()), share(garbage)};
}

// The sealed segment with the largest share of garbage, the oldest among equals; kNone if none has more than a third (`all`:
// any).
uint32_t Store::PickSegment(bool all) {
  const double enough = all ? 0 : 1.0 / 3;
  for (;;) {
    std::shared_lock reading(state_);
    uint32_t best = Location::kNone, hopeful = Location::kNone;
    double most = enough, hope = enough;
    uint64_t lowest = 0;
    for (uint32_t slot = 0; slot < segments_->size(); ++slot) {
      const Segment* segment = (*segments_)[slot].get();
      if (!segment || !segment->sealed || segment->damaged) continue;
      const auto [known, possible] = GarbageOf(*segment);
      if (known > most || (best != Location::kNone && known == most && segment->lowest < lowest)) {
        best = slot, most = known, lowest = segment->lowest;
      }
      if (possible > hope && segment->looked_at != removals_) hopeful = slot, hope = possible;
    }
    reading.unlock();
    if (best != Location::kNone || hopeful == Location::kNone || stop_) return best;
    FindGarbage(hopeful);
  }
}

// Compacts one segment after the other, alternating with other threads that do the same.
Status Store::CompactWhile(Garbage garbage) {
  while (!stop_) {
    std::lock_guard compacting(compacting_);
    if (Status status = SealFull(); !status.ok()) return status;
    if (std::shared_lock lock(state_); !ThereIs(garbage)) break;
    const uint32_t slot = PickSegment(garbage == Garbage::kAny);
    if (slot == Location::kNone) break;
    struct Now {
      std::atomic<bool>& is;
      ~Now() { is = false; }
    } now{compacting_now_};
    now.is = true;
    if (Status status = CompactSegment(slot); !status.ok()) return status;
  }
  return Status();
}

Status Store::Relieve() {
  if (std::shared_lock lock(state_); !ThereIs(Garbage::kFarTooMuch)) return Status();
  return CompactWhile(Garbage::kFarTooMuch);
}

Status Store::Compact() {
  // Two passes: the first may copy tombstones, and the second then removes the older rows that need them.
  for (int time = 0; time < 2; ++time) {
    for (Tail* tail : {&copies_, &user_}) {
      std::lock_guard lock(tail == &user_ ? writing_ : compacting_);
      if (Status status = Close(tail); !status.ok()) return status;
    }
    if (Status status = CompactWhile(Garbage::kAny); !status.ok()) return status;
  }
  return Status();
}

Status Store::CompactSegment(uint32_t slot) {
  FindGarbage(slot);
  const std::shared_ptr<Segment> segment = [&] {
    std::shared_lock lock(state_);
    return (*segments_)[slot];
  }();
  const int64_t at_once = std::max<int64_t>(1, kPiece / record_bytes_);
  AlignedBuffer buffer((at_once + 1) * record_bytes_ + 2 * kBlock, memory_);
  for (int64_t first = 0; first < segment->records; first += at_once) {
    if (stop_) return Status();
    const int64_t count = std::min(at_once, segment->records - first);
    const int64_t offset = RecordOffset(first, options_.row_bytes), begin = offset / kBlock * kBlock;
    const int64_t end = offset + count * record_bytes_;
    if (Status status = ReadBlocks(*segment, buffer.data(), begin, end); !status.ok()) return status;
    for (int64_t i = 0; i < count; i += kUnderLock) {
      const char* records = buffer.data() + (offset - begin) + i * record_bytes_;
      bool whole;
      Status status = CopyRecords(slot, records, first + i, std::min(kUnderLock, count - i), &whole);
      if (!status.ok()) return status;
      if (whole) continue;
      std::lock_guard lock(state_);
      segment->damaged = true;
      return Status();
    }
  }
  // Before a file is removed, its replacement must be durable: copies of its rows, including those of an earlier attempt, and the
  // users' newer records.
  if (copies_.open() && !options_.scratch) {
    if (Status status = WriteOut(&copies_, true); !status.ok()) return status;
    if (Status status = copies_.appender.segment()->Sync(); !status.ok()) return status;
  }
  if (Status status = SyncUser(false); !status.ok()) return status;
  if (Status status = NoteCommit(&copies_); !status.ok()) return status;
  return Remove(slot);
}

// Copies the live ones of these records to the end of the other segment, and points the index to the copies.
Status Store::CopyRecords(uint32_t slot, const char* records, int64_t first, int64_t count, bool* whole) {
  *whole = true;
  for (int64_t i = 0; i < count; ++i) {
    const char* record = records + i * record_bytes_;
    if (Whole(record, options_.row_bytes)) continue;
    *whole = false;
    std::shared_lock lock(state_);
    const std::string place = (*segments_)[slot]->Place(first + i, options_.row_bytes);
    lock.unlock();
    Warn("A record must be as it was written; that in " + place + " is damaged, so its segment is kept as it is.");
    return Status();
  }
  for (int64_t i = 0; i < count;) {
    if (Status status = MakeRoom(&copies_); !status.ok()) return status;
    std::lock_guard changing(changing_);
    std::lock_guard lock(state_);
    Segment& from = *(*segments_)[slot];
    Segment& to = *copies_.appender.segment();
    Tombstones& needed = from.tombstones;
    for (; i < count && copies_.appender.Fits() && to.records < records_per_segment_; ++i) {
      const char* record = records + i * record_bytes_;
      const RecordHeader header = HeaderOf(record);
      const auto kind = static_cast<RecordKind>(header.kind);
      const bool row = kind == RecordKind::kRow;
      if (kind == RecordKind::kCommit) continue;
      if (row && index_.Find(header.key) != Location{slot, static_cast<uint32_t>(first + i)}) continue;
      uint32_t holder = 0;
      if (row) {
        index_.Set(header.key, {copies_.slot, static_cast<uint32_t>(to.records)});
        --from.live, ++to.live;
      } else {
        if (needed.count() == 0 || needed.all[needed.copied] != Tombstone{header.key, header.sequence}) continue;
        holder = needed.holders[needed.copied++];
      }
      copies_.appender.Append(kind, header.sequence, header.key, row ? record + sizeof header : nullptr, holder);
      ++copies_.uncommitted, ++total_;
      stats_.compaction_bytes += record_bytes_;
    }
  }
  return Status();
}

Status Store::ReadBlocks(const Segment& segment, char* to, int64_t begin, int64_t end) const {
  // The last block may end with the file.
  for (int64_t at = begin; at < end;) {
    const ssize_t n = pread(segment.fd, to + (at - begin), (end - at + kBlock - 1) / kBlock * kBlock, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("Can't read " + segment.path);
    if (at + n < end && (n == 0 || n % kBlock != 0))
      return Status(segment.path + " ends at byte " + std::to_string(at + n) + ", before its records do.");
    at += n;
  }
  return Status();
}

// Removes it from the table, then from the manifest, then from the folder.
Status Store::Remove(uint32_t slot) {
  {
    std::lock_guard lock(state_);
    const std::shared_ptr<Segment> segment = (*segments_)[slot];
    std::string path = segment->path;
    leftovers_.reserve(leftovers_.size() + 1);
    Publish([&](SegmentTable* table) { (*table)[slot] = nullptr; });
    leftovers_.push_back(std::move(path));
    total_ -= segment->records;
    ++removals_;
    ++stats_.compactions;
  }
  return SaveManifest();
}

bool Store::CompactInBackground() {
  const Status status = NoThrow([&] { return CompactWhile(Garbage::kTooMuch); });
  if (!status.ok()) Warn("Compaction stopped: " + status.problem());
  return status.ok();
}

}  // namespace ctrlab::embedding
