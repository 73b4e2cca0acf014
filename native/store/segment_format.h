// The bytes of a store's files. A store is a folder with segment files (0000000001.seg and so on), a file MANIFEST that lists
// them, and a file LOCK that its process holds. All numbers are little-endian; checksums are CRC-32C.
// ctrlab/embedding/store/segments.py reads the same format in NumPy.
//
//   segment   header, records, and in a full segment: index, footer
//   header    64 bytes   "ctrlseg\0", u32 version 1, u32 64, u64 row bytes, u64 number of the segment, zeros, u32 crc of the
//                        60 bytes before it
//   record    24 bytes   u32 crc of the rest of the record, u32 kind, u64 sequence number, i64 key; then the row's bytes
//   index     16 bytes per record: i64 key, u64 sequence number * 4 + kind
//   footer    32 bytes   "ctrlend\0", u64 records, u32 crc of the index, zeros, u32 crc of the 28 before
//   manifest  40 bytes   "ctrlman\0", u32 version 1, u32 crc of all that follows, u64 next number, u64 durable, u64 segments;
//                        then for each segment u64 its number, ascending
//
// Kinds: 0, a row; 1, a tombstone: the key has no row; 2, a commit: all earlier records in this file were durable when it was
// written.
// Tombstones and commits carry a row of zeros, so that record i lies at 64 + i * (24 + row bytes).
// Of a key's records in all files, the one with the highest sequence number counts. Compaction copies records unchanged, so the
// same record may exist twice.
//
// A file without footer was not finished: its records end at the first incomplete one. Zeros may follow the last record, up to
// the next multiple of 4096 bytes. A broken record before a commit or a footer is not a torn tail but damage.
//
// A segment in the manifest's list must exist. An unlisted one is ignored if its number is below the next number (compaction has
// moved its records); otherwise it was made later. Users' writes have consecutive sequence numbers, in files with consecutive
// numbers. If those above the manifest's `durable` have a gap, power was lost before all were written, and records after the gap
// are ignored.

#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "store/crc32c.h"

namespace ctrlab::embedding {

static_assert(std::endian::native == std::endian::little, "segment files are little-endian");

constexpr int64_t kBlock = 4096;  // the unit of O_DIRECT
constexpr int64_t BlockFloor(int64_t bytes) { return bytes & ~(kBlock - 1); }
constexpr int64_t BlockCeil(int64_t bytes) { return BlockFloor(bytes + kBlock - 1); }
constexpr int64_t kPiece = int64_t{256} << 10;  // bytes per read of background work; larger reads would delay other readers
constexpr uint32_t kSegmentVersion = 1;

enum class RecordKind : uint32_t { kRow = 0, kTombstone = 1, kCommit = 2 };

struct SegmentHeader {
  char magic[8] = {'c', 't', 'r', 'l', 's', 'e', 'g', 0};
  uint32_t version = kSegmentVersion;
  uint32_t bytes = 64;
  uint64_t row_bytes = 0;
  uint64_t number = 0;
  char zeros[28] = {};
  uint32_t crc = 0;

  uint32_t Crc() const { return Crc32c(this, 60); }
  bool Ours() const { return std::memcmp(magic, SegmentHeader().magic, sizeof magic) == 0; }
};
static_assert(sizeof(SegmentHeader) == 64);

struct RecordHeader {
  uint32_t crc;
  uint32_t kind;
  uint64_t sequence;
  int64_t key;
};
static_assert(sizeof(RecordHeader) == 24);

struct IndexEntry {
  int64_t key;
  uint64_t sequence_and_kind;

  uint64_t sequence() const { return sequence_and_kind >> 2; }
  RecordKind kind() const { return static_cast<RecordKind>(sequence_and_kind & 3); }
};
static_assert(sizeof(IndexEntry) == 16);

struct SegmentFooter {
  char magic[8] = {'c', 't', 'r', 'l', 'e', 'n', 'd', 0};
  uint64_t records = 0;
  uint32_t index_crc = 0;
  uint32_t zeros = 0;
  uint32_t more_zeros = 0;
  uint32_t crc = 0;

  uint32_t Crc() const { return Crc32c(this, 28); }
};
static_assert(sizeof(SegmentFooter) == 32);

constexpr uint32_t kManifestVersion = 1;

struct ManifestHeader {
  char magic[8] = {'c', 't', 'r', 'l', 'm', 'a', 'n', 0};
  uint32_t version = kManifestVersion;
  uint32_t crc = 0;
  uint64_t next = 0;
  uint64_t durable = 0;
  uint64_t segments = 0;

  // The checksum of the bytes after this field, including the `segments` numbers.
  uint32_t Crc(const void* numbers) const {
    return Crc32c(numbers, segments * sizeof(uint64_t), Crc32c(&next, 3 * sizeof(uint64_t)));
  }
};
static_assert(sizeof(ManifestHeader) == 40);

inline int64_t RecordBytes(int64_t row_bytes) { return static_cast<int64_t>(sizeof(RecordHeader)) + row_bytes; }
inline int64_t RecordOffset(int64_t record, int64_t row_bytes) {
  return static_cast<int64_t>(sizeof(SegmentHeader)) + record * RecordBytes(row_bytes);
}

// Writes a record in the file format to `to`; a tombstone and a commit have no row.
inline void WriteRecord(char* to, RecordKind kind, uint64_t sequence, int64_t key, const void* row, int64_t row_bytes) {
  const RecordHeader header{0, static_cast<uint32_t>(kind), sequence, key};
  std::memcpy(to, &header, sizeof header);
  if (row) {
    std::memcpy(to + sizeof header, row, row_bytes);
  } else {
    std::memset(to + sizeof header, 0, row_bytes);
  }
  const uint32_t crc = Crc32c(to + sizeof crc, RecordBytes(row_bytes) - sizeof crc);
  std::memcpy(to, &crc, sizeof crc);
}

inline RecordHeader HeaderOf(const char* record) {
  RecordHeader header;
  std::memcpy(&header, record, sizeof header);
  return header;
}

inline bool Whole(const char* record, int64_t row_bytes) {
  const RecordHeader header = HeaderOf(record);
  return header.crc == Crc32c(record + sizeof header.crc, RecordBytes(row_bytes) - sizeof header.crc) && header.kind <= 2;
}

}  // namespace ctrlab::embedding
