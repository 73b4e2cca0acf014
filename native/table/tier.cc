// Moves rows up from the tier below a table's memory; demotion.cc moves them down.

#include "table/tier.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <new>
#include <numeric>
#include <shared_mutex>
#include <system_error>

#include "table/messages.h"
#include "table/sorted.h"
#include "table/table.h"

namespace ctrlab::embedding {

Status ReadRecords(SegmentStore& store, const Record& record, const std::vector<int64_t>& keys, const ParallelFor& parallel_for,
                   RecordsRead* read) {
  const int64_t size = std::ssize(keys), most = std::min(size, RecordsAtATime(record));
  const int64_t floats = record.bytes() / static_cast<int64_t>(sizeof(float));
  const auto records = std::make_unique_for_overwrite<float[]>(most * floats);
  const auto found = std::make_unique_for_overwrite<uint8_t[]>(most);
  for (int64_t begin = 0; begin < size; begin += most) {
    const int64_t count = std::min(most, size - begin);
    if (Status bad = store.Get(keys.data() + begin, count, records.get(), found.get(), parallel_for); !bad.ok()) return bad;
    for (int64_t i = 0; i < count; ++i) {
      if (!found[i]) continue;
      read->keys.push_back(keys[begin + i]);
      read->numbers.insert(read->numbers.end(), records.get() + i * floats, records.get() + (i + 1) * floats);
    }
  }
  return Status();
}

int64_t Tier::CountBelow(const std::vector<int64_t>& keys) const noexcept {
  constexpr int64_t kAtOnce = 256;
  uint8_t found[kAtOnce] = {};
  int64_t below = 0;
  for (int64_t begin = 0; begin < std::ssize(keys); begin += kAtOnce) {
    const int64_t count = std::min(kAtOnce, std::ssize(keys) - begin);
    (void)store_->Find(keys.data() + begin, count, found);  // only refused if the erase between two counts was refused, too
    below += std::count(found, found + count, 1);
  }
  return below;
}

Status Table::SetTier(TierOptions options) try {
  if (options.memory_rows < 1 || options.memory_rows > kMostRows) {
    return Problem("A tier's memory_rows must be in [1, 2^31); received ", options.memory_rows, ".");
  }
  std::lock_guard writer(writer_);
  if (tier_ || content_->rows->taken() > 0) return Problem("A table gets the tier below it once, before it has rows.");
  auto tier = std::make_unique<Tier>(std::move(options));
  std::lock_guard alone(gate_);
  tier_ = std::move(tier);
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

Status Table::Open() {
  std::lock_guard writer(writer_);
  return OpenTier();
}

Status Table::OpenTier() try {
  if (!tier_) return Status();
  if (!demotion_) {
    demotion_ = std::make_unique<Worker>("ctrlab-demotion", [this](const auto& stop) { return Demote(stop); });
  }
  if (tier_->open()) return Status();
  const int64_t width = dim() * (1 + content_->rows->slots());
  std::unique_ptr<SegmentStore> store;
  if (Status bad = tier_->options().open(Record{width}.bytes(), &store); !bad.ok()) return bad;
  std::lock_guard alone(gate_);
  tier_->Take(std::move(store), width);
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
} catch (const std::system_error& error) {
  return Problem("A table with storage needs a thread, and the system has none to give: ", error.what(), ".");
}

// Adds the keys among these that have no entry: their rows may be below.
void Table::AddAbsent(const int64_t* keys, int64_t count, std::vector<int64_t>* absent) const {
  constexpr int64_t kAhead = 16;  // distance between the key that is prefetched and the key that is processed
  for (int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count) content_->index.Ask(HashKey(keys[i + kAhead]));
    if (content_->index.Find(keys[i], HashKey(keys[i])) == 0) absent->push_back(keys[i]);
  }
}

Status Table::Prefetch(const int64_t* keys, int64_t count, const ParallelFor& parallel_for) try {
  {
    std::shared_lock reader(gate_);
    if (!HasRowsBelow()) return Status();
  }
  (void)Relieve();
  std::vector<int64_t> wanted(keys, keys + count);
  SortOnce(&wanted);
  if (const int64_t most = tier_->options().memory_rows; std::ssize(wanted) > most) wanted.resize(most);
  std::lock_guard writer(writer_);
  if (!HasRowsBelow()) return Status();
  std::vector<int64_t> absent;
  AddAbsent(wanted.data(), std::ssize(wanted), &absent);
  RecordsRead read;
  if (Status bad = ReadRecords(*tier_->store(), tier_->record(), absent, parallel_for, &read); !bad.ok()) return bad;
  if (!read.keys.empty()) {
    if (Status bad = Sink(std::ssize(read.keys), wanted); !bad.ok()) return bad;
    BringUp(read);
  }
  fetched_before_ = std::move(fetched_);
  fetched_ = std::move(wanted);
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

// Moves rows up that a lookup has read and that have not changed since: as many as there is room for, in the order in which they
// would move down last. Throws std::bad_alloc.
void Table::RaiseRead(const RecordsRead& read) {
  const int64_t room = Room();
  WakeDemotion();
  if (room <= 0) return;
  std::vector<int64_t> which;
  for (int64_t k = 0; k < std::ssize(read.keys); ++k) {
    if (content_->index.Find(read.keys[k], HashKey(read.keys[k])) == 0) which.push_back(k);
  }
  if (std::ssize(which) > room) {
    const Record record = tier_->record();
    const auto order = [&](int64_t k) {
      const char* from = read.At(k, record);
      return tier_->Order(record.Frequency(from), record.Step(from));
    };
    std::nth_element(which.begin(), which.begin() + room, which.end(), [&](int64_t a, int64_t b) { return order(a) > order(b); });
    which.resize(room);
  }
  BringUp(read, which);
}

void Table::BringUp(const RecordsRead& up) {
  std::vector<int64_t> all(up.keys.size());
  std::iota(all.begin(), all.end(), 0);
  BringUp(up, all);
}

// Moves rows up; their records below become dead. Throws std::bad_alloc before any change.
void Table::BringUp(const RecordsRead& up, const std::vector<int64_t>& which) {
  Rows& rows = *content_->rows;
  Index& index = content_->index;
  const Record record = tier_->record();
  rows.Reserve(std::ssize(which));
  std::vector<int64_t> entries(Index::kShards);
  for (const int64_t k : which) ++entries[Index::ShardOf(HashKey(up.keys[k]))];
  for (int64_t s = 0; s < Index::kShards; ++s) index.Reserve(s, entries[s]);
  tier_->ReserveDead(std::ssize(which));
  int64_t taken = 0;
  std::vector<int64_t> keys;
  keys.reserve(which.size());
  for (const int64_t k : which) {
    const int64_t key = up.keys[k];
    keys.push_back(key);
    const char* from = up.At(k, record);
    const uint32_t row = rows.Take(taken++);
    std::memcpy(rows.Row(row), from, 4 * record.width);
    rows.Frequency(row) = record.Frequency(from);
    index.Insert(key, HashKey(key), row + 1, record.Step(from) << 1);
  }
  rows.Took(taken);
  tier_->NoteDead(keys, taken);
  NotePeak();
  WakeDemotion();
}

Status Table::KeysBelow(std::vector<int64_t>* keys) const try {
  std::lock_guard writer(writer_);
  keys->clear();
  if (!tier_) return Status();
  return tier_->ForEach([&](int64_t key, const char*) {
    if (!content_->index.FindEntry(key, HashKey(key))) keys->push_back(key);
  });
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

}  // namespace ctrlab::embedding
