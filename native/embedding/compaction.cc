// Compaction: the live records of a segment are copied as they are to the end of another one, the copies go to the disk, then
// the file is removed.
//
// What makes this safe: before a file goes, its copies are on the disk, and so is every newer record that made others in it
// garbage; a tombstone goes only where no other file can hold an older record of its key, which it would bring back.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "no_throw.h"
#include "store_state.h"

namespace ctrlab::embedding {

namespace {

constexpr double kRecordsPerLive = 1.5;
constexpr int64_t kDeadRecords = 10'000'000;
constexpr int64_t kAtOnce = int64_t{256} << 10;  // bytes read from the segment; more at once would keep readers waiting

}  // namespace

// Far too much is twice as much, without what is in segments that are being written, which nothing could be done about.
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

// A tombstone is needed while another segment may hold an older record of its key, unless a newer row made it garbage.
bool Store::CanDrop(const Tombstone& tombstone, const Segment& of) const {
  if (index_.Find(tombstone.key).found()) return true;
  return std::none_of(segments_->begin(), segments_->end(), [&](const std::shared_ptr<Segment>& other) {
    return other && other.get() != &of && other->lowest < tombstone.sequence && other->filter.MayHold(tombstone.key);
  });
}

int64_t Store::Droppable(uint32_t slot) {
  Segment& segment = *(*segments_)[slot];
  if (segment.droppable_at != removals_) {
    segment.droppable_at = removals_;
    segment.droppable = std::count_if(segment.tombstones.begin(), segment.tombstones.end(),
                                      [&](const Tombstone& tombstone) { return CanDrop(tombstone, segment); });
  }
  return segment.droppable;
}

// Records that compaction of the segment would get rid of. Commits are no reason to copy all the others.
int64_t Store::GarbageOf(uint32_t slot) {
  const Segment& segment = *(*segments_)[slot];
  return segment.records - segment.commits - segment.live - std::ssize(segment.tombstones) + Droppable(slot);
}

// The sealed segment with the largest share of garbage, the oldest of several; kNone where none has more than a third, or any.
uint32_t Store::PickSegment(bool all) {
  auto lock = state_.Read();
  uint32_t best = Location::kNone;
  double most = all ? 0 : 1.0 / 3;
  uint64_t lowest = 0;
  for (uint32_t slot = 0; slot < segments_->size(); ++slot) {
    const Segment* segment = (*segments_)[slot].get();
    if (!segment || !segment->sealed || segment->damaged) continue;
    const double share = static_cast<double>(GarbageOf(slot)) / static_cast<double>(segment->records);
    if (share > most || (best != Location::kNone && share == most && segment->lowest < lowest)) {
      best = slot, most = share, lowest = segment->lowest;
    }
  }
  return best;
}

// One segment after the other, in turn with others who do the same.
Status Store::CompactWhile(Garbage garbage) {
  while (!stop_) {
    std::lock_guard compacting(compacting_);
    if (Status status = SealFull(); !status.ok()) return status;
    if (auto lock = state_.Read(); !ThereIs(garbage)) break;
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
  if (auto lock = state_.Read(); !ThereIs(Garbage::kFarTooMuch)) return Status();
  return CompactWhile(Garbage::kFarTooMuch);
}

Status Store::Compact() {
  for (Tail* tail : {&copies_, &user_}) {
    std::lock_guard lock(tail == &user_ ? writing_ : compacting_);
    if (Status status = Close(tail); !status.ok()) return status;
  }
  return CompactWhile(Garbage::kAny);
}

Status Store::CompactSegment(uint32_t slot) {
  const std::shared_ptr<Segment> segment = [&] {
    auto lock = state_.Read();
    return (*segments_)[slot];
  }();
  const int64_t at_once = std::max<int64_t>(1, kAtOnce / record_bytes_);
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
      auto lock = state_.Write();
      segment->damaged = true;
      return Status();
    }
  }
  // Nothing goes before what replaces it is on the disk: copies of its rows, those of an earlier attempt too, and what users
  // wrote.
  if (copies_.open() && !options_.scratch) {
    if (Status status = WriteOut(&copies_, true); !status.ok()) return status;
    if (Status status = copies_.appender.segment()->Sync(); !status.ok()) return status;
  }
  if (Status status = SyncUser(false); !status.ok()) return status;
  if (Status status = NoteCommit(&copies_); !status.ok()) return status;
  return Remove(slot);
}

// To the end of the other segment what is live of these; that is where it is found from then on.
Status Store::CopyRecords(uint32_t slot, const char* records, int64_t first, int64_t count, bool* whole) {
  *whole = true;
  for (int64_t i = 0; i < count; ++i) {
    const char* record = records + i * record_bytes_;
    if (Whole(record, options_.row_bytes)) continue;
    *whole = false;
    auto lock = state_.Read();
    const std::string place = (*segments_)[slot]->Place(first + i, options_.row_bytes);
    lock.unlock();
    Warn("A record must be as it was written; that in " + place + " is damaged, so its segment is kept as it is.");
    return Status();
  }
  for (int64_t i = 0; i < count;) {
    if (Status status = MakeRoom(&copies_); !status.ok()) return status;
    std::lock_guard changing(changing_);
    auto lock = state_.Write();
    Segment& from = *(*segments_)[slot];
    Segment& to = *copies_.appender.segment();
    for (; i < count && copies_.appender.Fits() && to.records < records_per_segment_; ++i) {
      const char* record = records + i * record_bytes_;
      const RecordHeader header = HeaderOf(record);
      const auto kind = static_cast<RecordKind>(header.kind);
      const bool row = kind == RecordKind::kRow;
      if (kind == RecordKind::kCommit) continue;
      if (row && index_.Find(header.key) != Location{slot, static_cast<uint32_t>(first + i)}) continue;
      if (!row && CanDrop({header.key, header.sequence}, from)) continue;
      if (row) {
        index_.Set(header.key, {copies_.slot, static_cast<uint32_t>(to.records)});
        --from.live, ++to.live;
      }
      copies_.appender.Append(kind, header.sequence, header.key, row ? record + sizeof header : nullptr);
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

// From the table, then from the manifest, then from the folder.
Status Store::Remove(uint32_t slot) {
  {
    auto lock = state_.Write();
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

void Store::CompactInBackground() {
  std::unique_lock lock(waking_);
  while (!stop_) {
    wake_.wait(lock, [&] { return wanted_ || stop_; });
    wanted_ = false;
    lock.unlock();
    const Status status = NoThrow([&] { return CompactWhile(Garbage::kTooMuch); });
    const bool stopped = !status.ok();
    if (stopped) (void)!NoThrow([&] { return Warn("Compaction stopped: " + status.problem()), Status(); }).ok();
    lock.lock();
    // What refused may refuse for long: it is not asked again at every Put.
    if (stopped) wake_.wait_for(lock, std::chrono::seconds(1), [&] { return stop_.load(); });
  }
}

}  // namespace ctrlab::embedding
