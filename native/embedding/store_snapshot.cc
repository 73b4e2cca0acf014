// A store's rows at one moment: where they are is copied, and the segments are held. What is in no file yet is copied as it is.

#include <algorithm>
#include <cstring>

#include "store_state.h"

namespace ctrlab::embedding {

namespace {

class Rows final : public StoreSnapshot {
 public:
  Rows(std::shared_ptr<const SegmentTable> segments, std::shared_ptr<RecordReader> reader, int64_t row_bytes)
      : segments_(std::move(segments)), reader_(std::move(reader)), row_bytes_(row_bytes) {}

  void AddInFile(int64_t key, Location at) { in_files_.push_back({(*segments_)[at.segment].get(), at.record, key, 0}); }
  void AddInBuffer(int64_t key, const char* row) {
    buffered_keys_.push_back(key);
    buffered_rows_.insert(buffered_rows_.end(), row, row + row_bytes_);
  }
  void Sort() { std::sort(in_files_.begin(), in_files_.end(), WantedRecord::Before); }

  int64_t size() const override { return std::ssize(in_files_) + std::ssize(buffered_keys_); }

  Status Next(int64_t limit, int64_t* keys, void* rows, int64_t* count) override {
    if (next_ >= std::ssize(in_files_)) {
      const int64_t from = next_ - std::ssize(in_files_);
      *count = std::min(limit, size() - next_);
      std::copy_n(buffered_keys_.begin() + from, *count, keys);
      std::copy_n(buffered_rows_.begin() + from * row_bytes_, *count * row_bytes_, static_cast<char*>(rows));
      next_ += *count;
      return Status();
    }
    *count = std::min(limit, std::ssize(in_files_) - next_);
    std::vector<WantedRecord> wanted(in_files_.begin() + next_, in_files_.begin() + next_ + *count);
    for (int64_t i = 0; i < *count; ++i) {
      keys[i] = wanted[i].key;
      wanted[i].place = i;
    }
    std::vector<uint8_t> found(*count);
    const ParallelFor alone{nullptr,
                            [](void*, int64_t n, int64_t, void (*body)(void*, int64_t, int64_t), void* c) { body(c, 0, n); }};
    Status status = reader_->Read(&wanted, static_cast<char*>(rows), found.data(), alone);
    if (status.ok()) next_ += *count;
    return status;
  }

 private:
  const std::shared_ptr<const SegmentTable> segments_;
  const std::shared_ptr<RecordReader> reader_;
  const int64_t row_bytes_;
  std::vector<WantedRecord> in_files_;
  std::vector<int64_t> buffered_keys_;
  std::vector<char> buffered_rows_;
  int64_t next_ = 0;
};

}  // namespace

Status Store::Snapshot(std::unique_ptr<StoreSnapshot>* snapshot) {
  auto lock = state_.Read();
  auto rows = std::make_unique<Rows>(segments_, reader_, options_.row_bytes);
  index_.ForEach([&](const StoreIndex::Entry& entry) {
    if (const char* record = InBuffer(entry.at)) {
      rows->AddInBuffer(entry.key, record + sizeof(RecordHeader));
    } else {
      rows->AddInFile(entry.key, entry.at);
    }
  });
  lock.unlock();
  rows->Sort();
  *snapshot = std::move(rows);
  return Status();
}

}  // namespace ctrlab::embedding
