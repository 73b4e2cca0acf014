// One segment file of a store: made, written at its end, sealed with an index, opened again, read.

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

// Memory whose address and size are multiples of a block, as O_DIRECT asks for.
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
// Of "0000000001.seg"; 0 where the name is none of ours.
uint64_t SegmentNumber(const std::string& name);

// Which keys a segment may hold: a Bloom filter of 10 bits a key and 6 probes in one cache line.
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

// Those of a segment that are needed, in the order of its records, each with the place in the table of a segment that was seen to
// hold an older record of its key: where one looks first whether it still does.
struct Tombstones {
  explicit Tombstones(std::pmr::memory_resource* memory) : all(memory), holders(memory) {}

  int64_t count() const { return std::ssize(all) - copied; }
  void Add(const Tombstone& tombstone, uint32_t holder) { all.push_back(tombstone), holders.push_back(holder); }
  void Shrink() { all.shrink_to_fit(), holders.shrink_to_fit(); }
  void swap(Tombstones& other) { all.swap(other.all), holders.swap(other.holders), std::swap(copied, other.copied); }

  std::pmr::vector<Tombstone> all;
  std::pmr::vector<uint32_t> holders;
  int64_t copied = 0;  // so many of the first are needed no longer here, but in the segment that has their copies
};

// A file and what is known about it. The counts change under the store's lock; path, number and file never do.
// The file closes with the last who holds the segment, a reader or a snapshot; its name may be gone before.
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

  // What was written is on the disk when this returns well. After a failure it never does again: the system may take what it
  // could not write for written.
  Status Sync() const;

  // Counts a record that is or will be in it.
  void Note(const IndexEntry& entry);

  int64_t dead_rows() const { return records - commits - erasures - live; }

  // In words for errors: the file and where in it.
  std::string Place(int64_t record, int64_t row_bytes) const {
    return path + " at byte " + std::to_string(RecordOffset(record, row_bytes));
  }

  const std::string path;
  const uint64_t number;
  const int fd;
  const std::shared_ptr<StoreMemory> memory;
  KeyFilter filter;
  int64_t records = 0;  // all of them: rows, tombstones, commits
  int64_t commits = 0, erasures = 0;
  int64_t live = 0;                             // rows that the store's index points to
  uint64_t lowest = ~uint64_t{0}, highest = 0;  // sequence numbers
  uint64_t committed = 0;                       // the highest before the last commit
  Tombstones tombstones;
  uint64_t looked_at =
      ~uint64_t{0};      // compaction's own: segments that had been removed when it last looked which tombstones are needed
  IndexEntries entries;  // of an unsealed one: what its index will be
  bool sealed = false;
  mutable std::atomic<int> unsynced = 0;  // why the system could not sync it, or 0
  bool damaged = false;                   // not to be compacted: the copy of a record would be lost
  const OwnProcess process;
};

// What closes a sealed segment: the index of `entries`, then the footer.
std::string IndexAndFooter(const IndexEntries& entries);

// Writes records at the end of a segment, a buffer at a time. Whoever appends is alone in doing so; readers may look at the
// buffer while they keep the appender from `Append` and `Settle` (the store's lock).
class Appender {
 public:
  // `buffer_bytes` is at least a record; `indexed`: its segments keep `entries`, to be sealed.
  Appender(int64_t row_bytes, int64_t buffer_bytes, bool indexed, std::shared_ptr<StoreMemory> memory);

  // Makes the file with its header in the buffer. Its name outlives a loss of power once the manifest is written.
  Status Create(const std::string& folder, uint64_t number, int64_t capacity, bool direct);
  void Close() { segment_.reset(); }

  const std::shared_ptr<Segment>& segment() const { return segment_; }
  bool Fits() const { return fill_ + RecordBytes(row_bytes_) <= buffer_.bytes(); }
  // What may throw for want of memory: so many calls of Append that follow do not.
  void Reserve(int64_t records);
  // `holder`: of a tombstone.
  void Append(RecordKind kind, uint64_t sequence, int64_t key, const void* row, uint32_t holder = 0);

  // Writes what the buffer holds to the file; with `all`, the last block too, filled up with zeros. Changes nothing that readers
  // look at: that is done by `Settle`, after which what was written is read from the file.
  Status Write(bool all);
  void Settle();

  // The first record that is not in the file as a whole yet; the bytes of one, or null where it is. Under the store's lock.
  uint32_t FirstInBuffer() const;
  const char* InBuffer(uint32_t record) const;

 private:
  const int64_t row_bytes_;
  const bool indexed_;
  const std::shared_ptr<StoreMemory> memory_;
  AlignedBuffer buffer_;
  std::shared_ptr<Segment> segment_;
  int64_t base_ = 0;     // where the buffer's first byte belongs in the file; a multiple of a block
  int64_t fill_ = 0;     // bytes in the buffer
  int64_t written_ = 0;  // bytes of the file that are written
  int64_t pending_ = 0;  // what `written_` will be after Settle
};

// What opening a file found out.
struct LoadedSegment {
  std::shared_ptr<Segment> segment;  // null: there was nothing in it
  std::string warning;               // what was dropped, or empty
  int64_t dropped_records = 0;
};

// Opens a file of an earlier run. Its `entries` are loaded, also of a sealed one.
Status LoadSegment(const std::string& path, uint64_t number, int64_t row_bytes, bool direct, std::shared_ptr<StoreMemory> memory,
                   LoadedSegment* loaded);

// Refuses a file that is no segment of this number with such rows.
Status CheckSegment(const std::string& path, uint64_t number, int64_t row_bytes);

// Cuts off what follows the records of a segment that nobody appends to, and gives it its index, from its `entries`.
Status SealWritten(const Segment& segment, int64_t row_bytes);

// Opens for O_DIRECT or not, without noting the time of each read, which would wait for the file system's journal.
int OpenSegment(const std::string& path, int flags, bool direct);

}  // namespace ctrlab::embedding
