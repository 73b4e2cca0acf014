// An on-disk store of rows by key: an append-only hash store, like Bitcask (Sheehy & Smith, 2010) and DeepRec's SSDHASH.
//
// All writes are appended to a segment file. The location of each key's last record is in memory (16 bytes per key, in a hash
// table with a load factor of at most 0.8), so reading a row takes one disk read. Overwritten and erased records are garbage
// until compaction copies a segment's live records elsewhere and deletes the file. Files: segment_format.h.
//
//   writes    are appended to a buffer in memory; a full buffer is written to the file at once. Flush makes everything durable.
//   garbage   starts a compaction above 1.5 records per live row, or above 10 million dead ones. Compaction takes the segments
//             with most garbage first, and none with a third or less. So it copies at most 2 records for each one that it frees:
//             the write amplification is at most 3. A writer that is faster than compaction calls Relieve. When that succeeds,
//             there are at most 3 records per live row and 20 million dead ones, not counting the two segments that are being
//             written.
//   a crash   of the process or the machine leaves the state after some operation: the last Flush or a later one. A loss of power
//             may destroy unflushed records in any order; records after a gap are then dropped.
//   a file    that is missing is noticed, because the manifest lists all files.
//
// It is not a cache (the tier above keeps rows that were read), not ordered, and not compressed.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/abi.h"
#include "store/status.h"

namespace ctrlab::embedding {

enum class Compaction : int64_t {
  kAsync = 0,  // in the store's own thread, and in Relieve
  kSync = 1,   // in the thread whose Put or Erase made the garbage
};

struct StoreOptions {
  std::string path;       // a folder; made if missing
  int64_t row_bytes = 0;  // bytes per row
  int64_t segment_bytes = int64_t{128} << 20;
  int64_t write_buffer = int64_t{1} << 20;
  Compaction compaction = Compaction::kAsync;
  bool direct = false;  // bypass the page cache, with many reads in flight; otherwise use it
  // For a store that ends with this object: nothing is synced, Flush does nothing, and files are left unfinished on close.
  bool scratch = false;
  std::shared_ptr<const void> held;  // released after the store's last file is closed
};

struct StoreStats {
  int64_t live = 0;   // keys with a row
  int64_t total = 0;  // records in all segments; those that are not live are garbage
  int64_t segments = 0;
  int64_t disk_bytes = 0;
  int64_t memory_bytes = 0;      // held by the store and its snapshots
  int64_t user_bytes = 0;        // records written for Put and Erase since Open
  int64_t compaction_bytes = 0;  // records copied by compaction since Open
  int64_t compactions = 0;       // segments removed by compaction
  int64_t reads = 0;             // requests to the system for rows
  int64_t dropped_records = 0;   // removed from a torn tail by Open
  int64_t pending_bytes = 0;     // not yet written to the files: lost if the process died now
  bool compacting = false;

  double write_amplification() const {
    return user_bytes ? static_cast<double>(user_bytes + compaction_bytes) / static_cast<double>(user_bytes) : 1;
  }
};

// The rows at one moment, in an order that reads each file from front to back. Its files stay open, and so on disk, as long as it
// lives, even if the store is closed.
class StoreSnapshot {
 public:
  virtual ~StoreSnapshot() = default;
  virtual int64_t size() const = 0;
  // The next rows: at least one and at most `limit`; *count is 0 after the last.
  virtual Status Next(int64_t limit, int64_t* keys, void* rows, int64_t* count) = 0;
};

// All calls are thread-safe. Writers wait for each other; readers wait for no disk access but their own. A call that fails, or
// throws std::bad_alloc, leaves the content unchanged; a failure says why in one sentence.
//
// Put and Erase process the keys in order. If one fails, it has stored some first keys completely and the others not at all; it
// does not say how many. With kSync it may have stored all of them, because compaction runs last. So repeating the call when the
// cause is gone has the same result as an undisturbed call. Erase on a scratch store writes nothing and never fails.
//
// A forked child gets one sentence as an error from every call (zeros from Stats), and changes no file when it destroys its copy.
// The parent keeps working and keeps the folder's lock.
class SegmentStore {
 public:
  static Status Open(const StoreOptions& options, std::unique_ptr<SegmentStore>* store);
  virtual ~SegmentStore() = default;  // flushes if it can

  // rows: [count] x row_bytes. The last row of a repeated key wins.
  virtual Status Put(const int64_t* keys, const void* rows, int64_t count) = 0;
  // found[i]: 1 if keys[i] has a row; otherwise 0, and row i is unchanged. A damaged row is an error, reported after all others
  // were read.
  virtual Status Get(const int64_t* keys, int64_t count, void* rows, uint8_t* found, const ParallelFor& parallel_for) = 0;
  // The same without rows, and without disk access. It allocates only the sentence of an error.
  virtual Status Find(const int64_t* keys, int64_t count, uint8_t* found) = 0;
  virtual Status Erase(const int64_t* keys, int64_t count) = 0;
  // Compacts in this thread until the garbage is within the limits; returns at once if it is. A continuous writer should call it
  // now and then, without holding a lock that others wait for.
  virtual Status Relieve() = 0;
  // On success, all earlier writes survive the end of the process and a loss of power.
  virtual Status Flush() = 0;
  // Removes all garbage now, whatever its amount.
  virtual Status Compact() = 0;
  // A snapshot of all keys, or of those for which `wanted` is true. It takes 16 bytes per key as long as it lives, plus the
  // records that are in no file yet. Writers wait while it goes through the index, so `wanted` must not block and must not call
  // the store.
  virtual Status Snapshot(std::unique_ptr<StoreSnapshot>* snapshot, const std::function<bool(int64_t key)>& wanted = {}) = 0;
  // A snapshot of these keys, which must be distinct. It does not go through the other keys. `found` is as in Find.
  virtual Status SnapshotOf(const int64_t* keys, int64_t count, uint8_t* found, std::unique_ptr<StoreSnapshot>* snapshot) = 0;

  virtual StoreStats Stats() = 0;
  // One sentence each: dropped torn tails, and damage that compaction found. They are kept until the store closes.
  virtual std::vector<std::string> Warnings() = 0;
};

}  // namespace ctrlab::embedding
