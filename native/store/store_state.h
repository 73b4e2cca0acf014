// The state of a store, shared by its source files: its members, its locks, and who may use what.

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "store/folder.h"
#include "store/gate.h"
#include "store/process.h"
#include "store/record_reader.h"
#include "store/segment.h"
#include "store/segment_store.h"
#include "store/store_index.h"
#include "store/worker.h"

namespace ctrlab::embedding {

constexpr int64_t kUnderLock = 256;  // records written before readers are let in again: about 50 us

// Segments by their number in index entries; null for a removed one. It is immutable: changes replace it by a new one.
using SegmentTable = std::vector<std::shared_ptr<Segment>>;

// A segment that is being written, and its number in the table.
struct Tail {
  Appender appender;
  uint32_t slot = Location::kNone;
  int64_t uncommitted = 0;  // records since the last commit

  bool open() const { return slot != Location::kNone; }
};

// The locks, always taken in this order: compaction (one at a time), writers (one at a time), sealing, the manifest, new names,
// changes of the index (or long reads of it), the state. The state's lock is held briefly: never during disk access or work that
// grows with the number of rows. A tail's appender belongs to the holder of its lock, `user_` to writers, `copies_` to
// compaction.
class Store final : public SegmentStore {
 public:
  Store(const StoreOptions& options, std::unique_ptr<FolderLock> lock);
  ~Store() override;

  Status Load();

  Status Put(const int64_t* keys, const void* rows, int64_t count) override;
  Status Get(const int64_t* keys, int64_t count, void* rows, uint8_t* found, const ParallelFor& parallel_for) override;
  Status Erase(const int64_t* keys, int64_t count) override;
  Status Relieve() override;
  Status Flush() override;
  Status Compact() override;
  Status Find(const int64_t* keys, int64_t count, uint8_t* found) override;
  Status Snapshot(std::unique_ptr<StoreSnapshot>* snapshot, const std::function<bool(int64_t key)>& wanted) override;
  Status SnapshotOf(const int64_t* keys, int64_t count, uint8_t* found, std::unique_ptr<StoreSnapshot>* snapshot) override;
  StoreStats Stats() override;
  std::vector<std::string> Warnings() override;

 private:
  // segment_store.cc
  Status Write(RecordKind kind, const int64_t* keys, const char* rows, int64_t count);
  void EraseInMemory(const int64_t* keys, int64_t count);
  void GrowIndex(const int64_t* keys, int64_t count);
  Status MakeRoom(Tail* tail);
  Status NewSegment(Tail* tail);
  Status WriteOut(Tail* tail, bool all);
  Status NoteCommit(Tail* tail);
  Status Close(Tail* tail);
  Status SealFull(int64_t left = 0);
  Status SyncUser(bool commit);
  Status SaveManifest();
  const char* InBuffer(Location at) const;
  void Forget(Location at);
  void Publish(const std::function<void(SegmentTable*)>& change);

  // store_load.cc
  Status FindFiles(std::vector<uint64_t>* numbers);
  Status AddFile(uint64_t number);
  Status DropAfterGap();
  void FillIndex();

  // compaction.cc
  enum class Garbage { kAny, kTooMuch, kFarTooMuch };
  bool ThereIs(Garbage garbage) const;
  struct Share {
    double known, possible;
  };
  void FindGarbage(uint32_t slot);
  Share GarbageOf(const Segment& segment) const;
  uint32_t PickSegment(bool all);
  Status CompactWhile(Garbage garbage);
  Status CompactSegment(uint32_t slot);
  Status ReadBlocks(const Segment& segment, char* to, int64_t begin, int64_t end) const;
  Status CopyRecords(uint32_t slot, const char* records, int64_t first, int64_t count, bool* whole);
  Status Remove(uint32_t slot);
  bool CompactInBackground();
  void Warn(std::string sentence);

  const StoreOptions options_;
  const int64_t record_bytes_, records_per_segment_;
  const std::unique_ptr<FolderLock> lock_;
  const std::shared_ptr<StoreMemory> memory_ = std::make_shared<StoreMemory>();  // shared, like the next, because
  const std::shared_ptr<RecordReader> reader_;                                   // snapshots outlive the store

  std::mutex compacting_;
  Tail copies_;

  std::mutex writing_;
  Tail user_;
  uint64_t next_sequence_ = 1;

  std::mutex sealing_;

  std::mutex saving_;
  uint64_t saved_changes_ = 0;  // the changes that the manifest on disk contains
  std::mutex naming_;           // held from choosing a segment's number until it is in the table

  FairMutex changing_;  // the index: held with the state's lock to change it, or alone to keep it unchanged for long

  FairMutex state_;
  StoreIndex index_;
  std::vector<std::shared_ptr<Segment>> full_;  // complete, but perhaps not synced, and not sealed yet; oldest first
  std::shared_ptr<const SegmentTable> segments_ = std::make_shared<SegmentTable>();
  uint64_t changes_ = 1;                // number of changes of the table since Open
  std::vector<std::string> leftovers_;  // files to delete once no manifest lists them
  uint64_t next_number_ = 1;
  uint64_t durable_ = 0;  // users' writes up to this sequence number are durable
  uint64_t removals_ = 0;
  int64_t total_ = 0;
  StoreStats stats_;
  std::vector<std::string> warnings_;

  std::atomic<bool> compacting_now_ = false;
  std::atomic<bool> stop_ = false;
  bool loaded_ = false;
  std::unique_ptr<Worker> compaction_;  // or null; last, because its thread uses all members above
};

}  // namespace ctrlab::embedding
