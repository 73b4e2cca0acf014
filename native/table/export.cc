// Exports a table's content, or its changes, always from one moment.

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>

#include "kernels/simd.h"
#include "table/each_shard.h"
#include "table/messages.h"
#include "table/table.h"

namespace ctrlab::embedding {
namespace {

constexpr size_t kAhead = 16;  // distance between the row that is prefetched and the row that is copied

// For each shard of the index, the start of its part; the last element is the end.
std::vector<int64_t> Begins(const std::vector<int64_t>& counts) {
  std::vector<int64_t> begins(counts.size() + 1);
  for (size_t s = 0; s < counts.size(); ++s) begins[s + 1] = begins[s] + counts[s];
  return begins;
}

}  // namespace

// The exported part of the memory. A walk(s, visit) calls visit(entry) for entries of a shard of the index, always in the same
// order.
struct Table::Outgoing {
  std::vector<std::vector<uint32_t>> places{Index::kShards};  // the rows, in the order of the walk
  std::vector<int64_t> rows, candidates;                      // start of each shard's part; the last element is the end

  StateSizes Sizes() const { return {rows.back(), candidates.back(), 0, 0}; }
};

template <class Walk>
Table::Outgoing Table::Count(const Walk& walk, const ParallelFor& parallel_for) const {
  Outgoing going;
  std::vector<int64_t> rows(Index::kShards), candidates(Index::kShards);
  EachIndexShard(parallel_for, content_->rows->taken(), [&](int64_t s) {
    walk(s, [&](const Entry& entry) {
      const Ref ref = entry.ref.load(std::memory_order_relaxed);
      if (IsRow(ref)) going.places[s].push_back(ref - 1);
      else ++candidates[s];
    });
    rows[s] = std::ssize(going.places[s]);
  });
  going.rows = Begins(rows), going.candidates = Begins(candidates);
  return going;
}

template <class Walk>
void Table::Write(const Walk& walk, const Outgoing& going, const StateOut& out, const ParallelFor& parallel_for) const {
  const Rows& rows = *content_->rows;
  EachIndexShard(parallel_for, rows.taken(), [&](int64_t s) {
    int64_t r = going.rows[s], c = going.candidates[s];
    const uint32_t* place = going.places[s].data();
    const uint32_t* last = place + going.places[s].size();
    walk(s, [&](const Entry& entry) {
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
}

Status Table::Export(Shard shard, const MakeRoom& make_room, const ParallelFor& parallel_for) try {
  std::lock_guard writer(writer_);
  const Index& index = content_->index;
  const auto walk = [&](int64_t s, const auto& visit) {
    index.ForEach(s, [&](const Entry& entry) {
      if (shard.Has(entry.key.load(std::memory_order_relaxed))) visit(entry);
    });
  };
  std::unique_ptr<StoreSnapshot> below;
  if (HasRowsBelow()) {
    const auto true_ones = [&](int64_t key) { return shard.Has(key) && !index.FindEntry(key, HashKey(key)); };
    if (Status bad = tier_->store()->Snapshot(&below, true_ones); !bad.ok()) return bad;
  }
  const Outgoing going = Count(walk, parallel_for);
  StateSizes sizes = going.Sizes();
  sizes.filter_bytes = content_->filter.bytes();
  if (below) sizes.rows += below->size();
  StateOut out;
  if (Status bad = make_room(sizes, &out); !bad.ok()) return bad;
  Write(walk, going, out, parallel_for);
  if (sizes.filter_bytes) std::memcpy(out.filter, content_->filter.data(), sizes.filter_bytes);
  return below ? ReadRows(*below, dim(), content_->rows->slots(), going.rows.back(), below->size(), out) : Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

Status Table::CutFor(const std::string& consumer, const ParallelFor& parallel_for, std::unique_ptr<Cut>* made) try {
  std::lock_guard writer(writer_);
  const Index& index = content_->index;
  ChangeLog::Interval interval = log_.Begin(consumer);
  const bool all = interval.since < 0;
  std::vector<std::vector<Entry*>> changed(Index::kShards);
  std::vector<int64_t> absent, removed;
  for (const int64_t key : interval.keys) {
    const uint64_t hash = HashKey(key);
    Entry* entry = index.FindEntry(key, hash);
    if (!entry) absent.push_back(key);
    else if (IsLive(entry->ref.load(std::memory_order_relaxed))) changed[Index::ShardOf(hash)].push_back(entry);
    else removed.push_back(key);
  }
  const auto walk = [&](int64_t s, const auto& visit) {
    if (all) return index.ForEach(s, visit);
    for (const Entry* entry : changed[s]) visit(*entry);
  };
  std::unique_ptr<StoreSnapshot> below;
  std::vector<uint8_t> found(absent.size());
  if (HasRowsBelow()) {
    const auto true_ones = [&](int64_t key) { return !index.FindEntry(key, HashKey(key)); };
    SegmentStore& store = *tier_->store();
    Status status =
        all ? store.Snapshot(&below, true_ones) : store.SnapshotOf(absent.data(), std::ssize(absent), found.data(), &below);
    if (!status.ok()) return status;
  }
  for (size_t k = 0; k < absent.size(); ++k) {
    if (!found[k]) removed.push_back(absent[k]);
  }
  std::sort(removed.begin(), removed.end());
  const Outgoing going = Count(walk, parallel_for);
  StateSizes sizes = going.Sizes();
  sizes.filter_bytes = content_->filter.bytes(), sizes.removed = std::ssize(removed);
  auto cut = std::make_unique<Cut>(dim(), content_->rows->slots(), sizes, std::move(below));
  const StateOut out = cut->Room();
  Write(walk, going, out, parallel_for);
  if (sizes.filter_bytes) std::memcpy(out.filter, content_->filter.data(), sizes.filter_bytes);
  std::copy(removed.begin(), removed.end(), out.removed);
  cut->since_ = interval.since;
  cut->version_ = log_.End(std::move(interval), ClearChanged());
  *made = std::move(cut);
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

Status Table::Confirm(const std::string& consumer, int64_t version) {
  std::lock_guard writer(writer_);
  return log_.Confirm(consumer, version);
}

Status Table::CaughtUp(const std::string& consumer, int64_t* version) try {
  std::lock_guard writer(writer_);
  *version = log_.CaughtUp(consumer, ClearChanged());
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

void Table::Forget(const std::string& consumer) {
  std::lock_guard writer(writer_);
  log_.Forget(consumer, ClearChanged());
}

}  // namespace ctrlab::embedding
