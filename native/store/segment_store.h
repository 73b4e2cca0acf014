// A store of rows by key on a disk: an append-only hash store, as Bitcask (Sheehy & Smith, 2010) and DeepRec's SSDHASH are.
//
// All writes go to the end of a segment file; the place of each key's last record is kept in memory (16 bytes a key, in a table
// that is at most 0.8 full); so a row costs one read, wherever it lies. What is overwritten or erased is garbage until compaction
// copies the live records of a segment elsewhere and removes the file. Files: segment_format.h.
//
//   writes    append to a buffer in memory; a full one goes to the file in one write. Flush puts all on the disk.
//   garbage   more than 1.5 records for a live row, or more than 10 million dead ones, start a compaction. It takes the
//             segments with most garbage first, and none with a third or less: so it copies at most 2 records for each that it
//             gets rid of, and writes at most 3 times what its users wrote. A writer that outruns it calls Relieve: when that
//             returns well, there are at most 3 records for a live row and 20 million dead ones, but for the two segments that
//             are being written.
//   a crash   of the process or the machine: a reopened store has the state that it had after some operation, the last Flush or a
//             later one. A loss of power may take what was not flushed in any order; what comes after a gap is dropped then.
//   a file    that is missing is noticed, since a manifest lists them all.
//
// Refuses to be: a cache (what is read is not kept: the tier above does that), ordered, or compressed.

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
  kAsync = 0,  // in a thread of the store's own, and in Relieve
  kSync = 1,   // in the thread whose Put or Erase made the garbage
};

struct StoreOptions {
  std::string path;       // a folder, made where there is none
  int64_t row_bytes = 0;  // of every row
  int64_t segment_bytes = int64_t{128} << 20;
  int64_t write_buffer = int64_t{1} << 20;
  Compaction compaction = Compaction::kAsync;
  bool direct = false;  // past the page cache, many reads at a time; else through it
  // For no longer than it is open: nothing is synced, Flush does nothing, and the files are left as they are when it closes.
  bool scratch = false;
  std::shared_ptr<const void> held;  // let go after the store's last file is closed
};

struct StoreStats {
  int64_t live = 0;   // keys with a row
  int64_t total = 0;  // records in all segments; those that are not live are garbage
  int64_t segments = 0;
  int64_t disk_bytes = 0;
  int64_t memory_bytes = 0;      // all that the store and its snapshots hold
  int64_t user_bytes = 0;        // records written for Put and Erase since Open
  int64_t compaction_bytes = 0;  // records copied by compaction since Open
  int64_t compactions = 0;       // segments that it removed
  int64_t reads = 0;             // requests to the system for rows
  int64_t dropped_records = 0;   // cut off a torn tail by Open
  int64_t pending_bytes = 0;     // written, and lost if the process died now
  bool compacting = false;

  double write_amplification() const {
    return user_bytes ? static_cast<double>(user_bytes + compaction_bytes) / static_cast<double>(user_bytes) : 1;
  }
};

// The rows as they were at one moment, in an order that reads each file from front to back. The files it needs stay open, and
// so on the disk, while it lives, whatever becomes of the store.
class StoreSnapshot {
 public:
  virtual ~StoreSnapshot() = default;
  virtual int64_t size() const = 0;
  // The next rows, at most `limit` and at least one; *count is 0 after the last.
  virtual Status Next(int64_t limit, int64_t* keys, void* rows, int64_t* count) = 0;
};

// Any number of threads may call anything at the same time. Writers wait for each other; readers wait for no disk but their own.
// A call that fails, or throws std::bad_alloc, leaves what is stored as it was; one that fails says why in one sentence.
//
// Put and Erase take the keys in their order. When one fails, it has taken those before some place, which it does not tell, each
// as a whole, and none from there on; with kSync perhaps all of them, since compaction comes last. So the same call again, when
// the cause is gone, ends as if it had never failed. An Erase of a scratch store writes nothing, and never fails.
//
// A child that is forked is refused by one sentence whatever it calls (Stats gives zeros), and changes no file when it destroys
// its copy; the parent goes on, and the lock of the folder goes with it.
class SegmentStore {
 public:
  static Status Open(const StoreOptions& options, std::unique_ptr<SegmentStore>* store);
  virtual ~SegmentStore() = default;  // flushes what it can

  // rows: [count] x row_bytes. Of a key that comes twice the last row stays.
  virtual Status Put(const int64_t* keys, const void* rows, int64_t count) = 0;
  // found[i]: 1 where keys[i] has a row, else 0, and row i is left as it is. A damaged row is an error, after all others
  // were read.
  virtual Status Get(const int64_t* keys, int64_t count, void* rows, uint8_t* found, const ParallelFor& parallel_for) = 0;
  // The same without the rows, and without the disk. It takes no memory but for the sentence of a refusal.
  virtual Status Find(const int64_t* keys, int64_t count, uint8_t* found) = 0;
  virtual Status Erase(const int64_t* keys, int64_t count) = 0;
  // Compacts in this thread until there is no longer far too much garbage; returns at once where there is not. Who writes without
  // end calls it now and then, holding nothing that others wait for.
  virtual Status Relieve() = 0;
  // When it returns well, all before it outlives the process and the machine's power.
  virtual Status Flush() = 0;
  // All garbage goes now, whatever the triggers.
  virtual Status Compact() = 0;
  // Of all keys, or of those for which `wanted` is true; 16 bytes of memory a key while it lives, and what is in no file yet.
  // Writers wait while it looks through the index: `wanted` must wait for none, and not call the store.
  virtual Status Snapshot(std::unique_ptr<StoreSnapshot>* snapshot, const std::function<bool(int64_t key)>& wanted = {}) = 0;
  // Of these keys, each given once, without a look at the others; found as by Find.
  virtual Status SnapshotOf(const int64_t* keys, int64_t count, uint8_t* found, std::unique_ptr<StoreSnapshot>* snapshot) = 0;

  virtual StoreStats Stats() = 0;
  // One sentence each: torn tails that were dropped, damage that compaction met. They stay until the store closes.
  virtual std::vector<std::string> Warnings() = 0;
};

}  // namespace ctrlab::embedding
