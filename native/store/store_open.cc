// Opening a store, for the process that does.

#include "store/folder.h"
#include "store/process.h"
#include "store/segment_store.h"
#include "store/store_state.h"

namespace ctrlab::embedding {

namespace {

Status CheckOptions(const StoreOptions& options) {
  auto in = [](const char* name, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return Status();
    return Status(std::string("A store's ") + name + " must be in [" + std::to_string(low) + ", " + std::to_string(high) +
                  "]; received " + std::to_string(value) + ".");
  };
  if (Status status = in("row_bytes", options.row_bytes, 1, int64_t{1} << 20); !status.ok()) return status;
  if (Status status = in("write_buffer", options.write_buffer, kBlock, int64_t{1} << 30); !status.ok()) return status;
  return in("segment_bytes", options.segment_bytes, RecordOffset(2, options.row_bytes), int64_t{1} << 40);
}

// A forked child has a copy of the store without its thread, and with locks that may never be released. So it must not call, or
// even destroy, the copy.
class StoreOfProcess final : public SegmentStore {
 public:
  explicit StoreOfProcess(std::unique_ptr<Store> store) : store_(std::move(store)) {}
  ~StoreOfProcess() override {
    if (!process_.Here()) (void)store_.release();
  }

  Status Put(const int64_t* keys, const void* rows, int64_t count) override {
    return process_.Here() ? store_->Put(keys, rows, count) : process_.Refusal();
  }
  Status Get(const int64_t* keys, int64_t count, void* rows, uint8_t* found, const ParallelFor& parallel_for) override {
    return process_.Here() ? store_->Get(keys, count, rows, found, parallel_for) : process_.Refusal();
  }
  Status Find(const int64_t* keys, int64_t count, uint8_t* found) override {
    return process_.Here() ? store_->Find(keys, count, found) : process_.Refusal();
  }
  Status Erase(const int64_t* keys, int64_t count) override {
    return process_.Here() ? store_->Erase(keys, count) : process_.Refusal();
  }
  Status Relieve() override { return process_.Here() ? store_->Relieve() : process_.Refusal(); }
  Status Flush() override { return process_.Here() ? store_->Flush() : process_.Refusal(); }
  Status Compact() override { return process_.Here() ? store_->Compact() : process_.Refusal(); }
  Status Snapshot(std::unique_ptr<StoreSnapshot>* snapshot, const std::function<bool(int64_t key)>& wanted) override {
    return process_.Here() ? store_->Snapshot(snapshot, wanted) : process_.Refusal();
  }
  Status SnapshotOf(const int64_t* keys, int64_t count, uint8_t* found, std::unique_ptr<StoreSnapshot>* snapshot) override {
    return process_.Here() ? store_->SnapshotOf(keys, count, found, snapshot) : process_.Refusal();
  }
  StoreStats Stats() override { return process_.Here() ? store_->Stats() : StoreStats(); }
  std::vector<std::string> Warnings() override {
    return process_.Here() ? store_->Warnings() : std::vector{process_.Refusal().problem()};
  }

 private:
  const OwnProcess process_;
  std::unique_ptr<Store> store_;
};

}  // namespace

Status SegmentStore::Open(const StoreOptions& options, std::unique_ptr<SegmentStore>* store) {
  if (Status status = CheckOptions(options); !status.ok()) return status;
  if (Status status = MakeFolder(options.path); !status.ok()) return status;
  std::unique_ptr<FolderLock> lock;
  if (Status status = FolderLock::Take(options.path, &lock); !status.ok()) return status;
  auto opened = std::make_unique<Store>(options, std::move(lock));
  if (Status status = opened->Load(); !status.ok()) return status;
  *store = std::make_unique<StoreOfProcess>(std::move(opened));
  return Status();
}

}  // namespace ctrlab::embedding
