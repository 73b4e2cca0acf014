// Imports content into a table.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <mutex>
#include <new>

#include "table/each_shard.h"
#include "table/messages.h"
#include "table/sorted.h"
#include "table/table.h"

namespace ctrlab::embedding {
namespace {

Status CheckWithin(const char* what, const int64_t* numbers, int64_t count, int64_t low, int64_t high) {
  for (int64_t i = 0; i < count; ++i) {
    if (numbers[i] < low || numbers[i] > high) {
      return Problem("A table's ", what, " must be in [", low, ", ", high, "]; received ", numbers[i], " at ", i, ".");
    }
  }
  return Status();
}

Status Check(const StateSizes& sizes, const StateIn& in) {
  constexpr int64_t most_steps = (int64_t{1} << 31) - 1;
  if (Status bad = CheckWithin("frequencies", in.frequencies, sizes.rows, 0, uint32_t{0} - 1); !bad.ok()) return bad;
  if (Status bad = CheckWithin("steps", in.steps, sizes.rows, 0, most_steps); !bad.ok()) return bad;
  if (Status bad = CheckWithin("candidates' counts", in.candidate_counts, sizes.candidates, 1, kMostCount); !bad.ok()) return bad;
  return CheckWithin("candidates' steps", in.candidate_steps, sizes.candidates, 0, most_steps);
}

}  // namespace

// The imported keys, grouped by shard of the index.
class Table::Incoming {
 public:
  Incoming(Table& table, Shard shard, const StateSizes& sizes, int64_t slots, const StateIn& in, const ParallelFor& parallel_for)
      : table_(table), in_(in), slots_(slots), parallel_for_(parallel_for), rows_(Index::kShards), candidates_(Index::kShards) {
    for (int64_t i = 0; i < sizes.rows; ++i) {
      if (shard.Has(in.keys[i])) rows_[Index::ShardOf(HashKey(in.keys[i]))].push_back(i);
    }
    for (int64_t i = 0; i < sizes.candidates; ++i) {
      if (shard.Has(in.candidate_keys[i])) candidates_[Index::ShardOf(HashKey(in.candidate_keys[i]))].push_back(i);
    }
    for (int64_t s = 0; s < Index::kShards; ++s) keys_ += KeysOf(s);
  }

  int64_t KeysOf(int64_t shard) const { return std::ssize(rows_[shard]) + std::ssize(candidates_[shard]); }

  int64_t keys() const { return keys_; }

  // Refuses repeated keys.
  Status CheckOnce() const {
    std::atomic<bool> twice = false;
    std::atomic<int64_t> which = 0;
    Index seen;
    EachIndexShard(parallel_for_, keys_, [&](int64_t s) {
      seen.Reserve(s, KeysOf(s));
      EachKey(s, [&](int64_t key) {
        const uint64_t hash = HashKey(key);
        if (seen.FindEntry(key, hash)) {
          twice = true;
          which = key;
          return;
        }
        seen.Insert(key, hash, 1, 0);
      });
    });
    return twice ? Problem("A table holds each key once; received ", which.load(), " twice.") : Status();
  }

  // Makes room for everything, and for freeing `leaving` rows before: after that Put can't fail. Throws std::bad_alloc.
  void Reserve(int64_t leaving) {
    Content& content = *table_.content_;
    int64_t rows = 0;
    gone_.resize(Index::kShards);
    begins_.resize(Index::kShards + 1);
    for (int64_t s = 0; s < Index::kShards; ++s) gone_[s].reserve(candidates_[s].size());
    for (const auto& of_shard : rows_) rows += std::ssize(of_shard);
    content.rows->Reserve(rows);
    content.rows->ReserveFree(keys_ - rows + leaving);
    EachIndexShard(parallel_for_, keys_, [&](int64_t s) { content.index.Reserve(s, KeysOf(s)); });
  }

  // Stores everything in the room that was made, replacing what the keys had.
  void Put() {
    Content& content = *table_.content_;
    EachIndexShard(parallel_for_, keys_, [&](int64_t s) {
      for (const int64_t i : rows_[s]) begins_[s + 1] += !IsRow(content.index.Find(in_.keys[i], HashKey(in_.keys[i])));
    });
    for (int64_t s = 0; s < Index::kShards; ++s) begins_[s + 1] += begins_[s];
    EachIndexShard(parallel_for_, keys_, [&](int64_t s) {
      int64_t next = begins_[s];
      for (const int64_t i : rows_[s]) {
        const Ref ref = content.index.Find(in_.keys[i], HashKey(in_.keys[i]));
        const uint32_t row = IsRow(ref) ? ref - 1 : content.rows->Take(next++);
        Fill(*content.rows, row, i);
        Enter(s, in_.keys[i], row + 1, in_.steps[i]);
      }
      for (const int64_t i : candidates_[s]) {
        const int64_t key = in_.candidate_keys[i];
        if (const Ref ref = content.index.Find(key, HashKey(key)); IsRow(ref)) gone_[s].push_back(ref - 1);
        Enter(s, key, kCandidate + static_cast<Ref>(in_.candidate_counts[i]), in_.candidate_steps[i]);
      }
    });
    content.rows->Took(begins_.back());
    for (const auto& of_shard : gone_) content.rows->Free(of_shard);
  }

 private:
  template <class Visit>
  void EachKey(int64_t s, const Visit& visit) const {
    for (const int64_t i : rows_[s]) visit(in_.keys[i]);
    for (const int64_t i : candidates_[s]) visit(in_.candidate_keys[i]);
  }

  void Enter(int64_t s, int64_t key, Ref ref, int64_t step) {
    const uint64_t hash = HashKey(key);
    const uint32_t stamp = static_cast<uint32_t>(step) << 1;
    Index& index = table_.content_->index;
    Entry* entry = index.FindEntry(key, hash);
    if (entry) {
      entry->stamp = stamp | entry->changed();
      index.SetRef(entry, hash, ref);
    } else {
      entry = index.Insert(key, hash, ref, stamp);
    }
    table_.NoteChange(s, entry);
  }

  void Fill(const Rows& rows, uint32_t row, int64_t i) const {
    const int64_t dim = table_.dim();
    float* to = rows.Row(row);
    std::copy_n(in_.values + i * dim, dim, to);
    for (int64_t k = 0; k < rows.slots(); ++k) {
      if (slots_) std::copy_n(in_.slots[k] + i * dim, dim, to + (1 + k) * dim);
      else std::fill_n(to + (1 + k) * dim, dim, table_.slot_initial_[k]);
    }
    rows.Frequency(row) = static_cast<uint32_t>(in_.frequencies[i]);
  }

  Table& table_;
  const StateIn in_;
  const int64_t slots_;
  const ParallelFor parallel_for_;
  std::vector<std::vector<int64_t>> rows_, candidates_;
  std::vector<std::vector<uint32_t>> gone_;  // by shard: rows of keys that become candidates
  std::vector<int64_t> begins_;              // for each shard, the start of its new rows
  int64_t keys_ = 0;
};

// New slots for a table without rows, until they are kept or this object is destroyed.
class Table::OtherSlots {
 public:
  explicit OtherSlots(Table& table) : table_(table) {}
  ~OtherSlots() {
    if (rows_) Swap();
  }
  void Take(int64_t slots) {
    rows_ = std::make_unique<Rows>(table_.dim(), slots);
    Swap();
  }
  void Keep() { rows_ = nullptr; }

 private:
  void Swap() {
    std::shared_ptr<SegmentStore> store;  // empty, and for another row size; destroyed after the gate is released
    std::lock_guard alone(table_.gate_);
    if (table_.tier_) store = table_.tier_->Leave();
    table_.content_->rows.swap(rows_);
  }

  Table& table_;
  std::unique_ptr<Rows> rows_;  // the rows with the new slots
};

Status Table::Import(ImportKind kind, Shard shard, const StateSizes& sizes, int64_t slot_count, const StateIn& in,
                     const ParallelFor& parallel_for) {
  if (kind != ImportKind::kAll) {
    std::unique_ptr<Prepared> prepared;
    if (Status bad = Prepare(kind, shard, sizes, slot_count, in, parallel_for, &prepared); !bad.ok()) return bad;
    prepared->Commit();
    return Status();
  }
  std::unique_ptr<Table> stage;
  if (Status bad = Stage(&stage); !bad.ok()) return bad;
  if (sizes.filter_bytes != stage->filter_bytes()) return stage->WrongFilter(sizes.filter_bytes);
  if (Status bad = stage->Import(ImportKind::kMore, shard, sizes, slot_count, in, parallel_for); !bad.ok()) return bad;
  return Adopt(stage.get());
}

Status Table::WrongFilter(int64_t bytes) const {
  return Problem("The table's Bloom filter has ", content_->filter.bytes(), " bytes; received ", bytes,
                 ": its expected keys, rate and threshold must be those that it was saved with.");
}

// Finds which keys of a state (rows, candidates, removed keys) have rows below. These rows are not read, because they are
// replaced.
Status Table::FindBelow(const StateSizes& sizes, const StateIn& in, Shard shard, const std::vector<int64_t>& removed,
                        std::vector<int64_t>* below) const {
  if (!HasRowsBelow()) return Status();
  std::vector<int64_t> keys(in.keys, in.keys + sizes.rows);
  keys.insert(keys.end(), in.candidate_keys, in.candidate_keys + sizes.candidates);
  keys.insert(keys.end(), removed.begin(), removed.end());
  std::erase_if(keys, [&](int64_t key) { return !shard.Has(key); });
  std::vector<int64_t> absent;
  AddAbsent(keys.data(), std::ssize(keys), &absent);
  SortOnce(&absent);
  std::vector<uint8_t> found(absent.size());
  if (Status bad = tier_->store()->Find(absent.data(), std::ssize(absent), found.data()); !bad.ok()) return bad;
  for (size_t k = 0; k < absent.size(); ++k) {
    if (found[k]) below->push_back(absent[k]);
  }
  return Status();
}

// What is prepared, in the order in which it is made; the locks are released after all else but the old arrays.
struct Table::Prepared::Work {
  Work(Table& table, ImportKind kind, const StateSizes& sizes, const StateIn& in)
      : table(table), writer(table.writer_), kind(kind), sizes(sizes), in(in), other_slots(table) {}

  Table& table;
  Index::Old old;
  const std::lock_guard<FairMutex> writer;
  const ImportKind kind;
  const StateSizes sizes;
  const StateIn in;
  std::unique_ptr<Incoming> incoming;
  std::vector<int64_t> removed, below;
  OtherSlots other_slots;
  Leaving leaving;
  bool committed = false;
};

Table::Prepared::Prepared(std::unique_ptr<Work> work) : work_(std::move(work)) {}

Status Table::Prepare(ImportKind kind, Shard shard, const StateSizes& sizes, int64_t slot_count, const StateIn& in,
                      const ParallelFor& parallel_for, std::unique_ptr<Prepared>* prepared) try {
  if (Status bad = Check(sizes, in); !bad.ok()) return bad;
  auto work = std::make_unique<Prepared::Work>(*this, kind, sizes, in);
  const int64_t slots = content_->rows->slots();
  const bool takes_slots = slots == 0 && TotalRows() == 0 && slot_count <= 2;
  if (slot_count != 0 && slot_count != slots && !takes_slots) {
    return Problem("The table has ", slots, " slots a row; received ", slot_count, ".");
  }
  // Only the first part of a state contains the filter.
  if (sizes.filter_bytes != 0 && sizes.filter_bytes != content_->filter.bytes()) return WrongFilter(sizes.filter_bytes);
  work->incoming = std::make_unique<Incoming>(*this, shard, sizes, slot_count, in, parallel_for);
  Incoming& incoming = *work->incoming;
  if (Status bad = incoming.CheckOnce(); !bad.ok()) return bad;
  if (Status bad = CheckRoom(sizes.rows); !bad.ok()) return bad;
  if (Status bad = SinkImported(); !bad.ok()) return bad;  // so at most one part is ever beyond the memory
  std::vector<int64_t>& removed = work->removed;
  if (kind == ImportKind::kChanges) {
    std::copy_if(in.removed, in.removed + sizes.removed, std::back_inserter(removed),
                 [&](int64_t key) { return shard.Has(key); });
    SortOnce(&removed);
  }
  if (Status bad = FindBelow(sizes, in, shard, removed, &work->below); !bad.ok()) return bad;
  if (slot_count > slots) work->other_slots.Take(slot_count);
  if (tier_) tier_->ReserveDead(std::ssize(work->below));
  incoming.Reserve(std::ssize(removed));
  std::vector<int64_t> room(Index::kShards);
  for (int64_t s = 0; s < Index::kShards; ++s) room[s] = incoming.KeysOf(s);
  std::vector<int64_t> changes = room;
  for (const int64_t key : removed) ++changes[Index::ShardOf(HashKey(key))];
  ReserveLog(changes);
  const auto goes = [&](const Entry& entry) {
    return std::binary_search(removed.begin(), removed.end(), entry.key.load(std::memory_order_relaxed));
  };
  *prepared = std::unique_ptr<Prepared>(new Prepared(std::move(work)));
  // From here on its destructor discards what is prepared.
  Prepared::Work& all = *(*prepared)->work_;
  if (!removed.empty() || !all.below.empty()) all.leaving = PrepareToRemove(goes, room, all.below, parallel_for);
  NotePeak();
  return Status();
} catch (const std::bad_alloc&) {
  prepared->reset();
  return OutOfMemory();
}

void Table::Prepared::Commit() {
  Work& work = *work_;
  Table& table = work.table;
  work.other_slots.Keep();
  work.committed = true;
  std::lock_guard alone(table.gate_);
  work.old = table.PublishRemoval();
  for (const auto& of_shard : work.leaving.rows) table.content_->rows->Free(of_shard);
  work.incoming->Put();
  BloomFilter& filter = table.content_->filter;
  if (work.sizes.filter_bytes && work.kind == ImportKind::kMore) filter.TakeLarger(work.in.filter);
  else if (work.sizes.filter_bytes) std::memcpy(filter.data(), work.in.filter, work.sizes.filter_bytes);
}

Table::Prepared::~Prepared() {
  Work& work = *work_;
  Table& table = work.table;
  if (!work.committed) {
    table.content_->index.Discard();
    return;
  }
  if (table.log_.on()) {
    for (const int64_t key : work.removed) table.log_.Note(Index::ShardOf(HashKey(key)), key);
  }
  if (!work.below.empty()) table.tier_->NoteDead(work.below, std::ssize(work.below));
  (void)table.SinkImported();
  table.WakeDemotion();
}

// Moves imported rows down until they fit in memory. If the tier refuses, they stay in memory, and the next part or update tries
// again and returns the problem.
Status Table::SinkImported() try {
  if (!tier_ || Room() >= 0) return Status();
  if (Status bad = OpenTier(); !bad.ok()) return bad;
  return Sink(0, {});
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

}  // namespace ctrlab::embedding
