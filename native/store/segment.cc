#include "store/segment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "store/store_index.h"

namespace ctrlab::embedding {

std::string IndexAndFooter(const IndexEntries& entries) {
  const size_t index_bytes = entries.size() * sizeof(IndexEntry);
  SegmentFooter footer;
  footer.records = entries.size();
  footer.index_crc = Crc32c(entries.data(), index_bytes);
  footer.crc = footer.Crc();
  std::string bytes(index_bytes + sizeof footer, 0);
  if (index_bytes) std::memcpy(bytes.data(), entries.data(), index_bytes);
  std::memcpy(bytes.data() + index_bytes, &footer, sizeof footer);
  return bytes;
}

AlignedBuffer::AlignedBuffer(int64_t bytes, std::shared_ptr<StoreMemory> memory)
    : memory_(std::move(memory)), bytes_(BlockCeil(bytes)), data_(static_cast<char*>(memory_->allocate(bytes_, kBlock))) {}

AlignedBuffer::~AlignedBuffer() { memory_->deallocate(data_, bytes_, kBlock); }

std::string SegmentName(uint64_t number) {
  char name[32];
  std::snprintf(name, sizeof name, "%010llu.seg", static_cast<unsigned long long>(number));
  return name;
}

uint64_t SegmentNumber(const std::string& name) {
  uint64_t number = 0;
  std::from_chars(name.data(), name.data() + name.size(), number);
  return SegmentName(number) == name ? number : 0;
}

void KeyFilter::Add(int64_t key) {
  const uint64_t hash = HashKey(key);
  Line& line = lines_[(hash >> 32) * lines_.size() >> 32];
  for (int probe = 0; probe < 6; ++probe) line.words[probe] |= uint64_t{1} << (hash >> (5 * probe) & 63);
}

bool KeyFilter::MayHold(int64_t key) const {
  const uint64_t hash = HashKey(key);
  const Line& line = lines_[(hash >> 32) * lines_.size() >> 32];
  for (int probe = 0; probe < 6; ++probe) {
    if (!(line.words[probe] >> (hash >> (5 * probe) & 63) & 1)) return false;
  }
  return true;
}

// Deleting a large file can make the file system discard many blocks on the disk while reads wait. So a file without a name is
// truncated in small pieces. A forked child does not do this, because its parent may still read the file.
Segment::~Segment() {
  struct stat about;
  if (process.Here() && fstat(fd, &about) == 0 && about.st_nlink == 0) {
    for (int64_t left = about.st_size; left > kPiece && ftruncate(fd, left - kPiece) == 0;) left -= kPiece;
  }
  close(fd);
}

Status Segment::Sync() const {
  struct stat about;
  if (fstat(fd, &about) != 0 || about.st_nlink == 0) {
    return Status(path + " is no longer in its folder, so nothing written to it would outlive this process.");
  }
  if (unsynced == 0 && fdatasync(fd) != 0) unsynced = errno;
  if (unsynced == 0) return Status();
  return Status("What is flushed must be on the disk; the system could not put " + path + " there (" + std::strerror(unsynced) +
                ") and may not try again; close the store and open it again: it then holds what the disk has.");
}

void Segment::Note(const IndexEntry& entry) {
  ++records;
  if (entry.kind() == RecordKind::kCommit) {
    ++commits;
    committed = highest;
    return;
  }
  if (entry.kind() == RecordKind::kTombstone) ++erasures;
  lowest = std::min(lowest, entry.sequence());
  highest = std::max(highest, entry.sequence());
  filter.Add(entry.key);
}

int OpenSegment(const std::string& path, int flags, bool direct) {
  const int wanted = O_RDWR | O_CLOEXEC | flags | (direct ? O_DIRECT : 0);
  const int fd = open(path.c_str(), wanted | O_NOATIME, 0644);
  return fd < 0 && errno == EPERM ? open(path.c_str(), wanted, 0644) : fd;  // only a file's owner may ask for that
}

Appender::Appender(int64_t row_bytes, int64_t buffer_bytes, bool indexed, std::shared_ptr<StoreMemory> memory)
    : row_bytes_(row_bytes),
      indexed_(indexed),
      memory_(std::move(memory)),
      buffer_(std::max(buffer_bytes, 2 * kBlock + 2 * RecordBytes(row_bytes)), memory_) {}

Status Appender::Create(const std::string& folder, uint64_t number, int64_t capacity, bool direct) {
  const std::string path = folder + "/" + SegmentName(number);
  const int fd = OpenSegment(path, O_CREAT | O_EXCL, direct);
  if (fd < 0) return SystemError("Can't make the segment " + path);
  segment_ = std::make_shared<Segment>(path, number, fd, indexed_ ? capacity : 0, memory_);
  SegmentHeader header;
  header.row_bytes = row_bytes_;
  header.number = number;
  header.crc = header.Crc();
  std::memcpy(buffer_.data(), &header, sizeof header);
  base_ = written_ = pending_ = 0;
  fill_ = sizeof header;
  return Status();
}

void Appender::Reserve(int64_t records) {
  const auto grow = [&](auto* list) {
    if (list->capacity() - list->size() < static_cast<size_t>(records))
      list->reserve(std::max(2 * list->capacity(), list->size() + records));
  };
  if (indexed_) grow(&segment_->entries);
  grow(&segment_->tombstones.all);
  grow(&segment_->tombstones.holders);
}

void Appender::Append(RecordKind kind, uint64_t sequence, int64_t key, const void* row, uint32_t holder) {
  WriteRecord(buffer_.data() + fill_, kind, sequence, key, row, row_bytes_);
  fill_ += RecordBytes(row_bytes_);
  segment_->Note({key, sequence << 2 | static_cast<uint64_t>(kind)});
  if (indexed_) segment_->entries.push_back({key, sequence << 2 | static_cast<uint64_t>(kind)});
  if (kind == RecordKind::kTombstone) segment_->tombstones.Add({key, sequence}, holder);
}

Status Appender::Write(bool all) {
  const int64_t bytes = all ? BlockCeil(fill_) : BlockFloor(fill_);
  if (all) std::memset(buffer_.data() + fill_, 0, bytes - fill_);
  Status status = WriteFully(segment_->fd, segment_->path, buffer_.data(), bytes, base_);
  if (status.ok()) pending_ = base_ + std::min(bytes, fill_);
  return status;
}

void Appender::Settle() {
  if (pending_ <= written_) return;
  written_ = pending_;
  // The buffer then starts with the block of the first record that is not completely in the file.
  const int64_t base = BlockFloor(RecordOffset(FirstInBuffer(), row_bytes_));
  std::memmove(buffer_.data(), buffer_.data() + (base - base_), fill_ - (base - base_));
  fill_ -= base - base_;
  base_ = base;
}

uint32_t Appender::FirstInBuffer() const {
  return static_cast<uint32_t>(std::max<int64_t>(0, written_ - RecordOffset(0, row_bytes_)) / RecordBytes(row_bytes_));
}

const char* Appender::InBuffer(uint32_t record) const {
  const int64_t offset = RecordOffset(record, row_bytes_);
  return offset + RecordBytes(row_bytes_) <= written_ ? nullptr : buffer_.data() + (offset - base_);
}

}  // namespace ctrlab::embedding
