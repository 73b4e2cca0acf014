// A store's rows at one moment: their locations are copied, and the segments are held. Records that are in no file yet are
// copied.

#include <algorithm>
#include <cstring>

#include "store/store_state.h"

namespace ctrlab::embedding {

namespace {

class Rows final : public StoreSnapshot {
  const std::shared_ptr<StoreMemory> memory_;
  const std::shared_ptr<RecordReader> reader_;
  const int64_t row_bytes_;
  const OwnProcess process_;
  int64_t next_ = 0;

 public:
  Rows(std::shared_ptr<StoreMemory> memory, std::shared_ptr<RecordReader> reader, int64_t row_bytes)
      : memory_(std::move(memory)), reader_(std::move(reader)), row_bytes_(row_bytes) {}

  int64_t size() const override { return std::ssize(in_files) + std::ssize(buffered_keys); }

  Status Next(int64_t limit, int64_t* keys, void* rows, int64_t* count) override {
    if (!process_.Here()) return process_.Refusal();
    if (next_ >= std::ssize(in_files)) {
      const int64_t from = next_ - std::ssize(in_files);
      *count = std::min(limit, size() - next_);
      std::copy_n(buffered_keys.begin() + from, *count, keys);
      std::copy_n(buffered_rows.begin() + from * row_bytes_, *count * row_bytes_, static_cast<char*>(rows));
      next_ += *count;
      return Status();
    }
    *count = std::min(limit, std::ssize(in_files) - next_);
    std::vector<WantedRecord> wanted;
    for (int64_t i = 0; i < *count; ++i) {
      const StoreIndex::Entry& entry = in_files[next_ + i];
      keys[i] = entry.key;
      wanted.push_back({(*segments)[entry.at.segment].get(), entry.at.record, entry.key, i});
    }
    std::vector<uint8_t> found(*count);
    Status status = reader_->Read(&wanted, static_cast<char*>(rows), found.data(), kAlone);
    if (status.ok()) next_ += *count;
    return status;
  }

  // Of the buffered ones.
  void Keep(const std::function<bool(int64_t key)>& wanted) {
    size_t kept = 0;
    for (size_t i = 0; i < buffered_keys.size(); ++i) {
      if (!wanted(buffered_keys[i])) continue;
      buffered_keys[kept] = buffered_keys[i];
      std::memmove(buffered_rows.data() + kept++ * row_bytes_, buffered_rows.data() + i * row_bytes_, row_bytes_);
    }
    buffered_keys.resize(kept);
    buffered_rows.resize(kept * row_bytes_);
  }

  // So that each file is read from front to back.
  void Sort() {
    std::sort(in_files.begin(), in_files.end(), [](const StoreIndex::Entry& a, const StoreIndex::Entry& b) {
      return a.at.segment != b.at.segment ? a.at.segment < b.at.segment : a.at.record < b.at.record;
    });
  }

  std::shared_ptr<const SegmentTable> segments;
  std::pmr::vector<StoreIndex::Entry> in_files{memory_.get()};
  std::pmr::vector<int64_t> buffered_keys{memory_.get()};
  std::pmr::vector<char> buffered_rows{memory_.get()};
};

}  // namespace

Status Store::Snapshot(std::unique_ptr<StoreSnapshot>* snapshot, const std::function<bool(int64_t key)>& wanted) {
  auto rows = std::make_unique<Rows>(memory_, reader_, options_.row_bytes);
  std::unique_lock unchanged(changing_);
  struct {
    uint32_t slot = Location::kNone, first = 0;
  } buffers[2];
  {
    std::shared_lock lock(state_);
    rows->segments = segments_;
    for (const Tail* tail : {&user_, &copies_}) {
      if (!tail->open()) continue;
      const uint32_t first = tail->appender.FirstInBuffer();
      buffers[tail == &copies_] = {tail->slot, first};
      for (uint32_t record = first; record < tail->appender.segment()->records; ++record) {
        const char* const bytes = tail->appender.InBuffer(record);
        const int64_t key = HeaderOf(bytes).key;
        if (index_.Find(key) != Location{tail->slot, record}) continue;
        rows->buffered_keys.push_back(key);
        rows->buffered_rows.insert(rows->buffered_rows.end(), bytes + sizeof(RecordHeader), bytes + record_bytes_);
      }
    }
  }
  if (wanted) rows->Keep(wanted);
  std::vector<bool> taken;
  taken.reserve(index_.size());
  int64_t count = 0;
  index_.ForEach([&](const StoreIndex::Entry& entry) {
    const bool buffered = std::any_of(std::begin(buffers), std::end(buffers), [&](const auto& buffer) {
      return entry.at.segment == buffer.slot && entry.at.record >= buffer.first;
    });
    taken.push_back(!buffered && (!wanted || wanted(entry.key)));
    count += taken.back();
  });
  rows->in_files.reserve(count);
  auto take = taken.begin();
  index_.ForEach([&](const StoreIndex::Entry& entry) {
    if (*take++) rows->in_files.push_back(entry);
  });
  unchanged.unlock();
  rows->Sort();
  *snapshot = std::move(rows);
  return Status();
}

Status Store::SnapshotOf(const int64_t* keys, int64_t count, uint8_t* found, std::unique_ptr<StoreSnapshot>* snapshot) {
  auto rows = std::make_unique<Rows>(memory_, reader_, options_.row_bytes);
  rows->in_files.reserve(count);
  std::unique_lock unchanged(changing_);
  for (int64_t i = 0; i < count; ++i) {
    const Location at = index_.Find(keys[i]);
    found[i] = at.found();
    if (at.found()) rows->in_files.push_back({keys[i], at});
  }
  {
    std::shared_lock lock(state_);
    rows->segments = segments_;
    std::erase_if(rows->in_files, [&](const StoreIndex::Entry& entry) {
      const char* const record = InBuffer(entry.at);
      if (!record) return false;
      rows->buffered_keys.push_back(entry.key);
      rows->buffered_rows.insert(rows->buffered_rows.end(), record + sizeof(RecordHeader), record + record_bytes_);
      return true;
    });
  }
  unchanged.unlock();
  rows->Sort();
  *snapshot = std::move(rows);
  return Status();
}

}  // namespace ctrlab::embedding
