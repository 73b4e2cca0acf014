// Opens files of an earlier run: by their index if they were sealed, otherwise record by record.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "store/segment.h"

namespace ctrlab::embedding {

namespace {

constexpr char kCure[] = "restore the file from a copy, or read what is whole by the command ctrlab embedding salvage.";

struct File {
  int fd;
  std::string path;
  int64_t bytes;
  int64_t row_bytes;
};

// 0 if the header is valid, else a sentence; `torn` if not even the header was written.
Status CheckHeader(const File& file, uint64_t number, bool* torn) {
  SegmentHeader header;
  char bytes[sizeof header] = {};
  if (Status status = ReadFully(file.fd, file.path, bytes, std::min<int64_t>(sizeof bytes, file.bytes), 0); !status.ok())
    return status;
  std::memcpy(&header, bytes, sizeof header);
  SegmentHeader expected;
  expected.row_bytes = file.row_bytes;
  expected.number = number;
  expected.crc = expected.Crc();
  const bool zeros = std::all_of(bytes, bytes + sizeof bytes, [](char c) { return c == 0; });
  *torn = zeros || (file.bytes < std::ssize(bytes) && std::memcmp(bytes, &expected, file.bytes) == 0);
  if (*torn) return Status();
  if (!header.Ours())
    return Status("A store's folder must hold its own segments only; " + file.path + " is not one; move it away.");
  if (header.version > kSegmentVersion) {
    return Status("Segments up to version " + std::to_string(kSegmentVersion) + " can be read; " + file.path + " has version " +
                  std::to_string(header.version) + ": a newer ctrlab wrote it.");
  }
  if (header.crc != header.Crc()) return Status("The header of " + file.path + " at byte 0 is damaged; " + kCure);
  if (header.row_bytes != static_cast<uint64_t>(file.row_bytes)) {
    return Status("The store's rows must have the size they were written with; " + file.path + " has rows of " +
                  std::to_string(header.row_bytes) + " bytes, " + std::to_string(file.row_bytes) + " were asked for.");
  }
  if (header.number != number) {
    return Status("A segment's name must be its number; " + file.path + " is number " + std::to_string(header.number) + ".");
  }
  return Status();
}

// Whether there is a footer with a valid index; then reads its entries.
bool ReadIndex(const File& file, IndexEntries* entries) {
  SegmentFooter footer;
  const int64_t after_header = file.bytes - static_cast<int64_t>(sizeof(SegmentHeader) + sizeof footer);
  if (after_header < 0) return false;
  char bytes[sizeof footer];
  if (!ReadFully(file.fd, file.path, bytes, sizeof footer, file.bytes - static_cast<int64_t>(sizeof footer)).ok()) return false;
  std::memcpy(&footer, bytes, sizeof footer);
  const int64_t each = RecordBytes(file.row_bytes) + static_cast<int64_t>(sizeof(IndexEntry));
  if (std::memcmp(footer.magic, SegmentFooter().magic, sizeof footer.magic) != 0 || footer.crc != footer.Crc() ||
      after_header % each != 0 || footer.records != static_cast<uint64_t>(after_header / each)) {
    return false;
  }
  entries->resize(footer.records);
  const int64_t index_bytes = static_cast<int64_t>(footer.records * sizeof(IndexEntry));
  if (!ReadFully(file.fd, file.path, reinterpret_cast<char*>(entries->data()), index_bytes,
                 RecordOffset(static_cast<int64_t>(footer.records), file.row_bytes))
           .ok()) {
    return false;
  }
  return footer.index_crc == Crc32c(entries->data(), index_bytes);
}

struct Scan {
  IndexEntries entries;          // of the records before the first broken one
  bool tail = false;             // something other than padding follows
  int64_t committed_after = -1;  // a commit after the first broken record
};

// Reads all records, a few megabytes at a time.
Status ScanRecords(const File& file, Scan* scan) {
  const int64_t record_bytes = RecordBytes(file.row_bytes);
  const int64_t records = (file.bytes - static_cast<int64_t>(sizeof(SegmentHeader))) / record_bytes;
  const int64_t at_once = std::max<int64_t>(1, (int64_t{4} << 20) / record_bytes);
  std::vector<char> bytes(std::min(at_once, records) * record_bytes);
  bool broken = false;
  for (int64_t first = 0; first < records; first += at_once) {
    const int64_t count = std::min(at_once, records - first);
    Status status = ReadFully(file.fd, file.path, bytes.data(), count * record_bytes, RecordOffset(first, file.row_bytes));
    if (!status.ok()) return status;
    for (int64_t i = 0; i < count; ++i) {
      const char* record = bytes.data() + i * record_bytes;
      const bool whole = Whole(record, file.row_bytes);
      if (!whole) {
        broken = true;
        scan->tail |= std::any_of(record, record + record_bytes, [](char c) { return c != 0; });
        continue;
      }
      const RecordHeader header = HeaderOf(record);
      if (!broken) {
        scan->entries.push_back({header.key, header.sequence << 2 | header.kind});
      } else if (header.kind == static_cast<uint32_t>(RecordKind::kCommit)) {
        scan->committed_after = first + i;
        return Status();
      }
    }
  }
  const int64_t end = RecordOffset(records, file.row_bytes), left = file.bytes - end;
  std::vector<char> rest(left);
  if (Status status = ReadFully(file.fd, file.path, rest.data(), left, end); !status.ok()) return status;
  scan->tail |= std::any_of(rest.begin(), rest.end(), [](char c) { return c != 0; });
  return Status();
}

}  // namespace

Status CheckSegment(const std::string& path, uint64_t number, int64_t row_bytes) {
  const OwnedFile opened(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat about;
  if (opened.fd() < 0 || fstat(opened.fd(), &about) != 0) return SystemError("Can't read " + path);
  bool torn;
  return CheckHeader({opened.fd(), path, about.st_size, row_bytes}, number, &torn);
}

Status LoadSegment(const std::string& path, uint64_t number, int64_t row_bytes, bool direct, std::shared_ptr<StoreMemory> memory,
                   LoadedSegment* loaded) {
  // With the page cache, because headers and footers are not aligned to blocks.
  const OwnedFile opened(open(path.c_str(), O_RDWR | O_CLOEXEC));
  File file{opened.fd(), path, 0, row_bytes};
  if (file.fd < 0) return SystemError("Can't open the segment " + path);
  struct stat about;
  if (fstat(file.fd, &about) != 0) return SystemError("Can't read " + path);
  file.bytes = about.st_size;

  bool torn;
  if (Status status = CheckHeader(file, number, &torn); !status.ok()) return status;
  Scan scan{IndexEntries(memory.get())};
  const bool sealed = ReadIndex(file, &scan.entries);
  if (!sealed && file.bytes >= static_cast<int64_t>(sizeof(SegmentHeader))) {
    // The disk's content counts, not that of the page cache, which the system may once have failed to write.
    if (fdatasync(file.fd) != 0) return SystemError("Can't sync " + path);
    posix_fadvise(file.fd, 0, 0, POSIX_FADV_DONTNEED);
    scan.entries.clear();
    if (Status status = ScanRecords(file, &scan); !status.ok()) return status;
  }
  const bool committed =
      sealed || scan.committed_after >= 0 ||
      std::any_of(scan.entries.begin(), scan.entries.end(), [](auto entry) { return entry.kind() == RecordKind::kCommit; });
  if (torn && committed) return Status("The header of " + path + " at byte 0 is damaged; " + kCure);
  if (torn) {
    loaded->warning = path + " was being made when its process ended, and holds nothing; dropped.";
    return Status();
  }
  if (!sealed) {
    const auto good = static_cast<int64_t>(scan.entries.size());
    const std::string place = path + " at byte " + std::to_string(RecordOffset(good, row_bytes));
    if (scan.committed_after >= 0)
      return Status("A committed record must be as it was written; that in " + place + " has another checksum; " + kCure);
    loaded->warning = path + " was never sealed (its process was killed), or its end was cut off or damaged; the " +
                      std::to_string(good) + " whole records at its start are kept";
    if (scan.tail) {
      const int64_t lost = file.bytes - RecordOffset(good, row_bytes);
      loaded->dropped_records = (lost + RecordBytes(row_bytes) - 1) / RecordBytes(row_bytes);
      loaded->warning += ", the last " + std::to_string(lost) + " bytes dropped";
    }
    loaded->warning += '.';
  }
  const int fd = OpenSegment(path, 0, direct);
  if (fd < 0) return SystemError("Can't open the segment " + path);
  auto segment = std::make_shared<Segment>(path, number, fd, static_cast<int64_t>(scan.entries.size()), std::move(memory));
  for (const IndexEntry& entry : scan.entries) segment->Note(entry);
  if (sealed) segment->committed = segment->highest;
  segment->entries = std::move(scan.entries);
  segment->sealed = sealed;
  loaded->segment = std::move(segment);
  return Status();
}

Status SealWritten(const Segment& segment, int64_t row_bytes) {
  const int64_t end = RecordOffset(segment.records, row_bytes);
  const std::string index = IndexAndFooter(segment.entries);
  const OwnedFile file(open(segment.path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.fd() < 0) return SystemError("Can't open the segment " + segment.path);
  Status status = ftruncate(file.fd(), end) == 0 ? Status() : SystemError("Can't cut " + segment.path);
  // Each piece is on disk before the next is written, so that reads never wait for the whole index.
  for (int64_t at = 0; status.ok() && at < std::ssize(index); at += kPiece) {
    const int64_t bytes = std::min(kPiece, std::ssize(index) - at);
    status = WriteFully(file.fd(), segment.path, index.data() + at, bytes, end + at);
    sync_file_range(file.fd(), end + at, bytes,
                    SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);  // fdatasync tells of failures
  }
  if (status.ok() && fdatasync(file.fd()) != 0) status = SystemError("Can't sync the index of " + segment.path);
  if (!status.ok()) (void)!ftruncate(file.fd(), end);  // removes the rest of the index; if this fails, the next run does it
  return status;
}

}  // namespace ctrlab::embedding
