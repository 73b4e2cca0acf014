// One segment file of a store: it is made, appended to, sealed with an index, opened again, and read.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/files.h"
#include "store/process.h"
#include "store/segment_format.h"
#include "store/status.h"
#include "store/store_memory.h"

namespace ctrlab::embedding {

// Memory whose address and size are multiples of a block, as O_DIRECT requires.
class AlignedBuffer {
 public:
  AlignedBuffer(int64_t bytes, std::shared_ptr<StoreMemory> memory);
  ~AlignedBuffer();
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  const std::shared_ptr<StoreMemory> memory_;
  const int64_t bytes_;
  char* const data_;
};

// The name of a segment's file.
std::string SegmentName(uint64_t number);
// The number in "0000000001.seg"; 0 if the name is not a segment's.
uint64_t SegmentNumber(const std::string& name);

// The set of keys that a segment may hold: a Bloom filter with 10 bits per key and 6 probes in one cache line.
class KeyFilter {
 public:
  KeyFilter(int64_t keys, StoreMemory* memory) : lines_((keys * 10 + 511) / 512 + 1, memory) {}
  void Add(int64_t key);
  bool MayHold(int64_t key) const;

 private:
  struct alignas(64) Line {
    uint64_t words[8] = {};
  };
  std::pmr::vector<Line> lines_;
};

using IndexEntries = std::pmr::vector<IndexEntry>;

struct Tombstone {
  int64_t key;
  uint64_t sequence;

  bool operator==(const Tombstone&) const = default;
};

// The tombstones of a segment that are still needed, in record order. With each goes the table index of a segment that held an
// older record of its key: the search whether one still exists begins there.
struct Tombstones {
  explicit Tombstones(std::pmr::memory_resource* memory) : all(memory), holders(memory) {}

  int64_t count() const { return std::ssize(all) - copied; }
  void Add(const Tombstone& tombstone, uint32_t holder) { all.push_back(tombstone), holders.push_back(holder); }
  void Shrink() { all.shrink_to_fit(), holders.shrink_to_fit(); }
  void swap(Tombstones& other) { all.swap(other.all), holders.swap(other.holders), std::swap(copied, other.copied); }

  std::pmr::vector<Tombstone> all;
  std::pmr::vector<uint32_t> holders;
  int64_t copied = 0;  // this many of the first tombstones are now needed only in the segment with their copies
};

// A file and what is known about it. The counts change under the store's lock; path, number and file never change. The file is
// closed with the last holder of the segment (a reader or a snapshot), possibly after its name was removed.
struct Segment {
  Segment(std::string path, uint64_t number, int fd, int64_t capacity, std::shared_ptr<StoreMemory> memory)
      : path(std::move(path)),
        number(number),
        fd(fd),
        memory(std::move(memory)),
        filter(capacity, this->memory.get()),
        tombstones(this->memory.get()),
        entries(this->memory.get()) {}
  ~Segment();

  // On success, all written bytes are durable. After a failure it never succeeds again, because the system may drop the bytes
  // that it could not write and report success later.
  Status Sync() const;

  // Counts a record that is, or will be, in the segment.
  void Note(const IndexEntry& entry);

  int64_t dead_rows() const { return records - commits - erasures - live; }

  // For errors: the file, and the position in it.
  std::string Place(int64_t record, int64_t row_bytes) const {
    return path + " at byte " + std::to_string(RecordOffset(record, row_bytes));
  }

  const std::string path;
  const uint64_t number;
  const int fd;
  const std::shared_ptr<StoreMemory> memory;
  KeyFilter filter;
  int64_t records = 0;  // all records: rows, tombstones, commits
  int64_t commits = 0, erasures = 0;
  int64_t live = 0;                             // rows that the store's index points to
  uint64_t lowest = ~uint64_t{0}, highest = 0;  // sequence numbers
  uint64_t committed = 0;                       // the highest sequence number before the last commit
  Tombstones tombstones;
  uint64_t looked_at =
      ~uint64_t{0};      // used by compaction: number of removed segments when it last checked which tombstones are needed
  IndexEntries entries;  // of an unsealed segment: its future index
  bool sealed = false;
  mutable std::atomic<int> unsynced = 0;  // the error that prevented a sync, or 0
  bool damaged = false;                   // never compacted: copying would lose damaged records
  const OwnProcess process;
};

// The end of a sealed segment: the index of `entries`, then the footer.
std::string IndexAndFooter(const IndexEntries& entries);

// Appends records to a segment through a buffer. Only one thread at a time may append. Readers may read the buffer while they
// hold the store's lock, which keeps the appender from `Append` and `Settle`.
class Appender {
 public:
  // `buffer_bytes` is at least one record; `indexed`: its segments keep `entries`, to be sealed.
  Appender(int64_t row_bytes, int64_t buffer_bytes, bool indexed, std::shared_ptr<StoreMemory> memory);

  // Makes the file, with its header still in the buffer. Its name is durable once the manifest is written.
  Status Create(const std::string& folder, uint64_t number, int64_t capacity, bool direct);
  void Close() { segment_.reset(); }

  const std::shared_ptr<Segment>& segment() const { return segment_; }
  bool Fits() const { return fill_ + RecordBytes(row_bytes_) <= buffer_.bytes(); }
  // Allocates everything that the next `records` calls of Append need; it may throw, they do not.
  void Reserve(int64_t records);
  // `holder`: only for a tombstone.
  void Append(RecordKind kind, uint64_t sequence, int64_t key, const void* row, uint32_t holder = 0);

  // Writes the buffer to the file; with `all`, also the last block, padded with zeros. It changes nothing that readers use:
  // `Settle` does that, and afterwards the written records are read from the file.
  Status Write(bool all);
  void Settle();

  // The first record that is not completely in the file yet; and a record's bytes, or null if it is in the file. Needs the
  // store's lock.
  uint32_t FirstInBuffer() const;
  const char* InBuffer(uint32_t record) const;

 private:
  const int64_t row_bytes_;
  const bool indexed_;
  const std::shared_ptr<StoreMemory> memory_;
  AlignedBuffer buffer_;
  std::shared_ptr<Segment> segment_;
  int64_t base_ = 0;     // file offset of the buffer's first byte; a multiple of a block
  int64_t fill_ = 0;     // bytes in the buffer
  int64_t written_ = 0;  // bytes already written to the file
  int64_t pending_ = 0;  // the value of `written_` after Settle
};

// The result of opening a file.
struct LoadedSegment {
  std::shared_ptr<Segment> segment;  // null if the file holds no record
  std::string warning;               // what was dropped, or empty
  int64_t dropped_records = 0;
};

// Opens an existing file. Loads its `entries`, also for a sealed one.
Status LoadSegment(const std::string& path, uint64_t number, int64_t row_bytes, bool direct, std::shared_ptr<StoreMemory> memory,
                   LoadedSegment* loaded);

// Refuses a file that is not a segment with this number and row size.
Status CheckSegment(const std::string& path, uint64_t number, int64_t row_bytes);

// Truncates a segment after its records and adds the index of its `entries`. No thread may append to it.
Status SealWritten(const Segment& segment, int64_t row_bytes);

// Opens a file, with O_DIRECT if `direct`. Reads do not update the access time, which would wait for the file system's journal.
int OpenSegment(const std::string& path, int flags, bool direct);

}  // namespace ctrlab::embedding
