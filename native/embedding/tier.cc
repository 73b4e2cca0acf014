// How rows come up from the tier below a table's memory; demotion.cc: how they go down.

#include "embedding/tier.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <new>
#include <shared_mutex>

#include "embedding/messages.h"
#include "embedding/table.h"

namespace ctrlab::embedding {

Status Tier::Open(int64_t width) {
  if (store_) return Status();
  width_ = width;
  std::unique_ptr<SegmentStore> store;
  if (Status bad = options_.open(row_bytes(), &store); !bad.ok()) return bad;
  store_ = std::move(store);
  Status status = EraseAll();
  if (!status.ok()) store_ = nullptr;
  return status;
}

Status Tier::EraseAll() {
  std::vector<int64_t> keys;
  if (Status bad = ForEach([&](int64_t key, const char*) { keys.push_back(key); }); !bad.ok()) return bad;
  return keys.empty() ? Status() : store_->Erase(keys.data(), std::ssize(keys));
}

void Tier::Clear() {
  to_erase_.clear();
  changed.clear();
  store_ = nullptr;
}

Status Tier::Close() {
  if (rows() > 0)
    return Problem("Slots can't change while ", rows(), " rows lie in the tier below the memory; set them before rows sink.");
  store_ = nullptr;
  return Status();
}

void Tier::Erase(const std::vector<int64_t>& keys) {
  to_erase_.insert(to_erase_.end(), keys.begin(), keys.end());
  (void)Settle();
}

Status Tier::Settle() try {
  if (to_erase_.empty()) return Status();
  if (Status bad = store_->Erase(to_erase_.data(), std::ssize(to_erase_)); !bad.ok()) return bad;
  to_erase_.clear();
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

Status Table::SetTier(TierOptions options) {
  if (options.memory_rows < 1 || options.memory_rows > kMostRows) {
    return Problem("A tier's memory_rows must be in [1, 2^31); received ", options.memory_rows, ".");
  }
  std::lock_guard writer(writer_);
  if (tier_ || content_->rows->taken() > 0) return Problem("A table gets the tier below it once, before it has rows.");
  std::lock_guard alone(gate_);
  tier_ = std::make_unique<Tier>(std::move(options));
  return Status();
}

Status Table::OpenTier() try {
  if (!tier_ || tier_->open()) return Status();
  std::lock_guard alone(gate_);
  if (Status bad = tier_->Open(dim() * (1 + content_->rows->slots())); !bad.ok()) return bad;
  StartDemotion();
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

// Those of these keys that the memory has nothing of, ascending, each once.
std::vector<int64_t> Table::Absent(const int64_t* keys, int64_t count) const {
  constexpr int64_t kAhead = 16;  // keys between the one whose memory is asked for and the one in work
  std::vector<int64_t> absent;
  for (int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count) content_->index.Ask(HashKey(keys[i + kAhead]));
    if (content_->index.Find(keys[i], HashKey(keys[i])) == 0) absent.push_back(keys[i]);
  }
  std::sort(absent.begin(), absent.end());
  absent.erase(std::unique(absent.begin(), absent.end()), absent.end());
  return absent;
}

Status Table::Prefetch(const int64_t* keys, int64_t count, const ParallelFor& parallel_for) try {
  {
    std::shared_lock reader(gate_);
    if (!HasRowsBelow()) return Status();
  }
  std::vector<int64_t> wanted(keys, keys + count);
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  if (const int64_t most = tier_->options().memory_rows; std::ssize(wanted) > most) wanted.resize(most);
  std::lock_guard writer(writer_);
  if (!HasRowsBelow()) return Status();
  const std::vector<int64_t> absent = Absent(wanted.data(), std::ssize(wanted));
  if (!absent.empty()) {
    const MergedBatch kept{wanted.data(), nullptr, nullptr, std::ssize(wanted)};
    if (Status bad = Raise(absent, 0, kept, parallel_for); !bad.ok()) return bad;
  }
  fetched_before_ = std::move(fetched_);
  fetched_ = std::move(wanted);
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

// Brings those of these keys up whose rows are below and of which the memory has nothing; before, makes room in memory for
// them, and at least for `incoming`, by other rows than those of `kept`.
Status Table::Raise(const std::vector<int64_t>& keys, int64_t incoming, const MergedBatch& kept,
                    const ParallelFor& parallel_for) {
  std::vector<int64_t> raised;
  std::vector<char> records;
  Status status = tier_->ForEachOf(keys, parallel_for, [&](int64_t key, const char* record) {
    raised.push_back(key);
    records.insert(records.end(), record, record + tier_->row_bytes());
  });
  if (!status.ok()) return status;
  if (status = Sink(std::max(std::ssize(raised), incoming), kept); !status.ok()) return status;
  std::vector<RowBelow> rows;
  for (const int64_t key : raised) rows.push_back({key, records.data() + std::ssize(rows) * tier_->row_bytes()});
  BringUp(rows);
  return Status();
}

// Of these rows below, which a lookup has read, brings those up that sink last, as many as there is room for.
Status Table::RaiseRead(const std::vector<int64_t>& keys, const char* records) try {
  const int64_t room = Room();
  WakeDemotion();
  if (room <= 0) return Status();
  std::vector<RowBelow> rows;
  for (int64_t k = 0; k < std::ssize(keys); ++k) {
    if (content_->index.Find(keys[k], HashKey(keys[k])) == 0) rows.push_back({keys[k], records + k * tier_->row_bytes()});
  }
  if (std::ssize(rows) > room) {
    const auto order = [&](const RowBelow& row) { return tier_->Order(tier_->Frequency(row.record), tier_->Step(row.record)); };
    std::nth_element(rows.begin(), rows.begin() + room, rows.end(),
                     [&](const RowBelow& a, const RowBelow& b) { return order(a) > order(b); });
    rows.resize(room);
  }
  BringUp(rows);
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

// Brings up rows that are below and that the memory has nothing of. Throws std::bad_alloc before anything is done.
void Table::BringUp(const std::vector<RowBelow>& up) {
  Rows& rows = *content_->rows;
  rows.Reserve(std::ssize(up));
  std::vector<int64_t> entries(Index::kShards), keys;
  for (const RowBelow& one : up) ++entries[Index::ShardOf(HashKey(one.key))];
  for (int64_t s = 0; s < Index::kShards; ++s) content_->index.Reserve(s, entries[s]);
  for (const RowBelow& one : up) keys.push_back(one.key);
  tier_->ReserveErase(std::ssize(up));
  for (int64_t k = 0; k < std::ssize(up); ++k) {
    const auto& [key, record] = up[k];
    const uint32_t row = rows.Take(k);
    std::memcpy(rows.Row(row), record, tier_->row_bytes() - 8);
    rows.Frequency(row) = tier_->Frequency(record);
    const uint32_t changed = tier_->changed.erase(key);
    content_->index.Insert(key, HashKey(key), row + 1, tier_->Step(record) << 1 | changed);
  }
  rows.Took(std::ssize(up));
  NotePeak();
  WakeDemotion();
  tier_->Erase(keys);  // only now: a lookup that does not find a key below looks in memory once more
}

Status Table::KeysBelow(std::vector<int64_t>* keys) const {
  std::lock_guard writer(writer_);
  keys->clear();
  if (!tier_) return Status();
  if (Status bad = tier_->Settle(); !bad.ok()) return bad;
  return tier_->ForEach([&](int64_t key, const char*) { keys->push_back(key); });
}

}  // namespace ctrlab::embedding
