// A table's content on its way out and in.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <mutex>
#include <new>

#include "embedding/each_shard.h"
#include "embedding/messages.h"
#include "embedding/table.h"
#include "kernels/simd.h"

namespace ctrlab::embedding {
namespace {

constexpr size_t kAhead = 16;  // rows between the one that is asked for and the one that is copied

// Of each shard of the index, where its part begins; the last: where all end.
std::vector<int64_t> Begins(const std::vector<int64_t>& counts) {
  std::vector<int64_t> begins(counts.size() + 1);
  for (size_t s = 0; s < counts.size(); ++s) begins[s + 1] = begins[s] + counts[s];
  return begins;
}

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

// Of the rows below, those that an Export writes.
class Below {
 public:
  Below(const Tier* tier, Extent extent, Shard shard, const ParallelFor& parallel_for)
      : tier_(tier && tier->open() ? tier : nullptr), extent_(extent), shard_(shard), parallel_for_(parallel_for) {
    if (!tier_ || extent != Extent::kChanges) return;
    std::copy_if(tier_->changed.begin(), tier_->changed.end(), std::back_inserter(changed_),
                 [&](int64_t key) { return shard.Has(key); });
    std::sort(changed_.begin(), changed_.end());
  }

  Status Count(int64_t* count) const {
    *count = std::ssize(changed_);
    if (!tier_ || extent_ == Extent::kChanges) return Status();
    *count = tier_->rows();
    if (shard_.count == 1) return Status();
    *count = 0;
    return ForEach([&](int64_t, const char*) { ++*count; });
  }

  template <class Visit>
  Status ForEach(const Visit& visit) const {
    if (!tier_) return Status();
    if (extent_ == Extent::kChanges) return tier_->ForEachOf(changed_, parallel_for_, visit);
    return tier_->ForEach([&](int64_t key, const char* record) {
      if (shard_.Has(key)) visit(key, record);
    });
  }

 private:
  const Tier* tier_;
  const Extent extent_;
  const Shard shard_;
  const ParallelFor& parallel_for_;
  std::vector<int64_t> changed_;
};

}  // namespace

Status Table::Export(Extent extent, Shard shard, const MakeRoom& make_room, const ParallelFor& parallel_for) try {
  std::lock_guard writer(writer_);
  if (tier_) {
    if (Status bad = tier_->Settle(); !bad.ok()) return bad;
  }
  const Below below(tier_.get(), extent, shard, parallel_for);
  int64_t rows_below = 0;
  if (Status bad = below.Count(&rows_below); !bad.ok()) return bad;
  const Index& index = content_->index;
  const Rows& rows = *content_->rows;
  const auto wanted = [&](const Entry& entry) {
    return (extent != Extent::kChanges || entry.changed()) && shard.Has(entry.key.load(std::memory_order_relaxed));
  };
  std::vector<std::vector<uint32_t>> places(Index::kShards);  // the rows that go out, in the order of the entries
  std::vector<int64_t> counts(Index::kShards), candidates(Index::kShards);
  EachIndexShard(parallel_for, rows.taken(), [&](int64_t s) {
    index.ForEach(s, [&](const Entry& entry) {
      if (!wanted(entry)) return;
      const Ref ref = entry.ref.load(std::memory_order_relaxed);
      if (IsRow(ref)) places[s].push_back(ref - 1);
      else ++candidates[s];
    });
    counts[s] = std::ssize(places[s]);
  });
  const std::vector<int64_t> row_begins = Begins(counts), candidate_begins = Begins(candidates);
  std::vector<int64_t> removed;
  if (extent == Extent::kChanges) {
    std::copy_if(removed_.begin(), removed_.end(), std::back_inserter(removed), [&](int64_t key) { return shard.Has(key); });
  }
  StateOut out;
  const StateSizes sizes{row_begins.back() + rows_below, candidate_begins.back(), content_->filter.bytes(), std::ssize(removed)};
  if (Status bad = make_room(sizes, &out); !bad.ok()) return bad;
  EachIndexShard(parallel_for, rows.taken(), [&](int64_t s) {
    int64_t r = row_begins[s], c = candidate_begins[s];
    const uint32_t* place = places[s].data();
    const uint32_t* last = place + places[s].size();
    index.ForEach(s, [&](const Entry& entry) {
      if (!wanted(entry)) return;
      const int64_t key = entry.key.load(std::memory_order_relaxed);
      const Ref ref = entry.ref.load(std::memory_order_relaxed);
      if (!IsRow(ref)) {
        out.candidate_keys[c] = key;
        out.candidate_counts[c] = ref - kCandidate;
        out.candidate_steps[c++] = entry.step();
        return;
      }
      if (last - place > static_cast<int64_t>(kAhead)) ctrlab::Prefetch(rows.Row(place[kAhead]), 0);
      const float* row = rows.Row(*place);
      out.keys[r] = key;
      std::copy_n(row, dim(), out.values + r * dim());
      for (int64_t k = 0; k < rows.slots(); ++k) std::copy_n(row + (1 + k) * dim(), dim(), out.slots[k] + r * dim());
      out.frequencies[r] = rows.Frequency(*place++);
      out.steps[r++] = entry.step();
    });
  });
  int64_t r = row_begins.back();
  Status read = below.ForEach([&](int64_t key, const char* record) {
    out.keys[r] = key;
    const int64_t bytes = dim() * static_cast<int64_t>(sizeof(float));
    std::memcpy(out.values + r * dim(), record, bytes);
    for (int64_t k = 0; k < rows.slots(); ++k) std::memcpy(out.slots[k] + r * dim(), record + (1 + k) * bytes, bytes);
    out.frequencies[r] = tier_->Frequency(record);
    out.steps[r++] = tier_->Step(record);
  });
  if (!read.ok()) return read;
  if (sizes.filter_bytes) std::memcpy(out.filter, content_->filter.data(), sizes.filter_bytes);
  std::copy(removed.begin(), removed.end(), out.removed);
  if (extent == Extent::kAll) return Status();
  EachIndexShard(parallel_for, rows.taken(),
                 [&](int64_t s) { index.ForEach(s, [](Entry& entry) { entry.stamp &= ~uint32_t{1}; }); });
  has_base_ = true;
  removed_.clear();
  if (tier_) tier_->changed.clear();
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

// What comes, by the shard of the index that it goes to.
class Table::Incoming {
 public:
  Incoming(const Table& table, Shard shard, const StateSizes& sizes, int64_t slots, const StateIn& in,
           const ParallelFor& parallel_for)
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

  // Refuses a key that comes twice.
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

  // Room for all of it, and to give back so many rows before: after that Put can't fail. Throws std::bad_alloc.
  void Reserve(Content& content, int64_t leaving = 0) {
    int64_t rows = 0;
    gone_.resize(Index::kShards);
    begins_.resize(Index::kShards + 1);
    for (int64_t s = 0; s < Index::kShards; ++s) gone_[s].reserve(candidates_[s].size());
    for (const auto& of_shard : rows_) rows += std::ssize(of_shard);
    content.rows->Reserve(rows);
    content.rows->ReserveFree(keys_ - rows + leaving);
    EachIndexShard(parallel_for_, keys_, [&](int64_t s) { content.index.Reserve(s, KeysOf(s)); });
  }

  // Puts it where room was made; what is there under the same key goes.
  void Put(Content& content) {
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
        Enter(content.index, in_.keys[i], row + 1, in_.steps[i]);
      }
      for (const int64_t i : candidates_[s]) {
        const int64_t key = in_.candidate_keys[i];
        if (const Ref ref = content.index.Find(key, HashKey(key)); IsRow(ref)) gone_[s].push_back(ref - 1);
        Enter(content.index, key, kCandidate + static_cast<Ref>(in_.candidate_counts[i]), in_.candidate_steps[i]);
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

  static void Enter(Index& index, int64_t key, Ref ref, int64_t step) {
    const uint64_t hash = HashKey(key);
    const uint32_t stamp = static_cast<uint32_t>(step) << 1;
    Entry* entry = index.FindEntry(key, hash);
    if (!entry) {
      index.Insert(key, hash, ref, stamp);
      return;
    }
    entry->stamp = stamp;
    entry->ref.store(ref, std::memory_order_release);
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

  const Table& table_;
  const StateIn& in_;
  const int64_t slots_;
  const ParallelFor& parallel_for_;
  std::vector<std::vector<int64_t>> rows_, candidates_;
  std::vector<std::vector<uint32_t>> gone_;  // by shard: rows whose key becomes a candidate
  std::vector<int64_t> begins_;              // of each shard, where its new rows begin
  int64_t keys_ = 0;
};

Status Table::Import(ImportKind kind, Shard shard, const StateSizes& sizes, int64_t slot_count, const StateIn& in,
                     const ParallelFor& parallel_for) try {
  if (Status bad = Check(sizes, in); !bad.ok()) return bad;
  std::lock_guard writer(writer_);
  const int64_t slots = content_->rows->slots();
  if (slot_count != 0 && slot_count != slots && (slots != 0 || kind != ImportKind::kAll)) {
    return Problem("The table has ", slots, " slots a row; received ", slot_count, ".");
  }
  if (sizes.filter_bytes != content_->filter.bytes()) {
    return Problem("The table's Bloom filter has ", content_->filter.bytes(), " bytes; received ", sizes.filter_bytes,
                   ": its expected keys, rate and threshold must be those that it was saved with.");
  }
  Incoming incoming(*this, shard, sizes, slot_count, in, parallel_for);
  if (Status bad = incoming.CheckOnce(); !bad.ok()) return bad;
  if (Status bad = CheckRoom(kind == ImportKind::kAll ? sizes.rows - content_->rows->taken() : sizes.rows); !bad.ok()) return bad;
  if (kind == ImportKind::kAll) {
    auto fresh = std::make_unique<Content>(dim(), std::max(slots, slot_count), options_.admission);
    incoming.Reserve(*fresh);
    incoming.Put(*fresh);
    if (sizes.filter_bytes) std::memcpy(fresh->filter.data(), in.filter, sizes.filter_bytes);
    NotePeak(fresh->bytes());
    {
      std::lock_guard alone(gate_);
      if (tier_) tier_->Clear();
      content_ = std::move(fresh);
      has_base_ = true;
      removed_.clear();
    }
    SinkImported();
    return Status();
  }
  if (tier_) {
    if (Status bad = RaiseImported(sizes, in, parallel_for); !bad.ok()) return bad;
  }
  Leaving leaving{std::vector<std::vector<int64_t>>(Index::kShards), std::vector<std::vector<uint32_t>>(Index::kShards)};
  incoming.Reserve(*content_, sizes.removed);
  if (kind == ImportKind::kChanges && sizes.removed) {
    Index gone;
    for (int64_t i = 0; i < sizes.removed; ++i) {
      const uint64_t hash = HashKey(in.removed[i]);
      gone.Reserve(Index::ShardOf(hash), 1);
      if (shard.Has(in.removed[i]) && !gone.FindEntry(in.removed[i], hash)) gone.Insert(in.removed[i], hash, 1, 0);
    }
    std::vector<int64_t> room(Index::kShards);
    for (int64_t s = 0; s < Index::kShards; ++s) room[s] = incoming.KeysOf(s);
    leaving = PrepareToRemove(
        [&](const Entry& entry) {
          const int64_t key = entry.key.load(std::memory_order_relaxed);
          return gone.FindEntry(key, HashKey(key)) != nullptr;
        },
        room, parallel_for);
  }
  NotePeak();
  {
    std::lock_guard alone(gate_);
    Remove(leaving);
    incoming.Put(*content_);
    if (kind == ImportKind::kMore) content_->filter.TakeLarger(in.filter);
    else if (sizes.filter_bytes) std::memcpy(content_->filter.data(), in.filter, sizes.filter_bytes);
    has_base_ = true;
  }
  SinkImported();
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

// Brings up what an Import is about to change, and keeps it there.
Status Table::RaiseImported(const StateSizes& sizes, const StateIn& in, const ParallelFor& parallel_for) {
  if (!tier_->open()) return Status();
  std::vector<int64_t> keys(in.keys, in.keys + sizes.rows);
  keys.insert(keys.end(), in.candidate_keys, in.candidate_keys + sizes.candidates);
  keys.insert(keys.end(), in.removed, in.removed + sizes.removed);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  const std::vector<int64_t> absent = Absent(keys.data(), std::ssize(keys));
  if (Status bad = Raise(absent, 0, {keys.data(), nullptr, nullptr, std::ssize(keys)}, parallel_for); !bad.ok()) return bad;
  return tier_->Settle();
}

// Makes the rows that came in fit the memory. Where the tier refuses, all that came stays in memory, the next update tries again
// and returns the problem.
void Table::SinkImported() try {
  if (tier_ && OpenTier().ok()) (void)Sink(0, {});
} catch (const std::bad_alloc&) {
}

}  // namespace ctrlab::embedding
