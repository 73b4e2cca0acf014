#include "embedding/table.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <mutex>
#include <new>

#include "embedding/each_shard.h"
#include "embedding/messages.h"

namespace ctrlab::embedding {
namespace {

Status Check(const TableOptions& options) {
  const Initializer& initial = options.initializer;
  const Admission& admission = options.admission;
  if (options.dim < 1 || options.dim >= 1 << 16)
    return Problem("A table's dim must be in [1, 2^16); received ", options.dim, ".");
  if (!std::isfinite(initial.a) || !std::isfinite(initial.b)) {
    return Problem("An initializer's numbers must be finite; received ", initial.a, " and ", initial.b, ".");
  }
  if (admission.kind == AdmissionKind::kAll) return Status();
  if (admission.threshold < 1 || admission.threshold > kMostCount) {
    return Problem("An admission threshold must be in [1, 2^31); received ", admission.threshold, ".");
  }
  if (admission.kind == AdmissionKind::kCounter) return Status();
  if (admission.expected_keys < 1 || admission.expected_keys >= int64_t{1} << 40) {
    return Problem("A Bloom filter's expected keys must be in [1, 2^40); received ", admission.expected_keys, ".");
  }
  if (!(admission.false_positive_rate > 0 && admission.false_positive_rate < 1)) {
    return Problem("A Bloom filter's false-positive rate must be in (0, 1); received ", admission.false_positive_rate, ".");
  }
  return Status();
}

}  // namespace

Status Table::Make(const TableOptions& options, std::unique_ptr<Table>* table) {
  if (Status bad = Check(options); !bad.ok()) return bad;
  try {
    std::unique_ptr<Table> made(new Table(options));
    made->content_ = std::make_unique<Content>(options.dim, 0, options.admission);
    made->NotePeak();
    *table = std::move(made);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
  return Status();
}

int64_t Table::slots() const {
  std::lock_guard writer(writer_);
  return content_->rows->slots();
}

int64_t Table::filter_bytes() const {
  std::lock_guard writer(writer_);
  return content_->filter.bytes();
}

Status Table::SetSlots(int64_t count, const float* initial) {
  if (count < 0 || count > 2) return Problem("A table can have 0 to 2 slots; received ", count, ".");
  std::lock_guard writer(writer_);
  if (count != content_->rows->slots()) {
    try {
      auto rows = std::make_unique<Rows>(*content_->rows, count, initial);
      NotePeak(rows->bytes());
      std::lock_guard alone(gate_);
      if (tier_) {
        if (Status bad = tier_->Close(); !bad.ok()) return bad;
      }
      content_->rows = std::move(rows);
    } catch (const std::bad_alloc&) {
      return OutOfMemory();
    }
  }
  std::copy_n(initial, count, slot_initial_);
  return Status();
}

void Table::FillNew(int64_t key, const Rows& rows, uint32_t row) const {
  float* value = rows.Row(row);
  initial_.Fill(key, value);
  for (int64_t s = 0; s < rows.slots(); ++s) std::fill_n(value + (1 + s) * dim(), dim(), slot_initial_[s]);
}

void Table::NotePeak(int64_t more) { peak_bytes_ = std::max(peak_bytes_, content_->bytes() + more); }

Status Table::EvictSteps(int64_t step, int64_t steps_to_live, const ParallelFor& parallel_for, int64_t* removed) {
  if (steps_to_live < 1) return Problem("steps_to_live must be at least 1; received ", steps_to_live, ".");
  return Evict([=](int64_t last, const float*) { return step - last > steps_to_live; }, parallel_for, removed);
}

Status Table::EvictNorms(double threshold, const ParallelFor& parallel_for, int64_t* removed) {
  if (!(threshold > 0)) return Problem("An L2 threshold must be positive; received ", threshold, ".");
  return Evict(
      [=, this](int64_t, const float* value) {
        if (!value) return false;
        double sum = 0;
        for (int64_t o = 0; o < dim(); ++o) sum += double{value[o]} * value[o];
        return std::sqrt(sum) < threshold;
      },
      parallel_for, removed);
}

Status Table::Evict(const Old& goes, const ParallelFor& parallel_for, int64_t* removed) {
  std::lock_guard writer(writer_);
  if (Status bad = OpenTier(); !bad.ok()) return bad;
  try {
    std::vector<int64_t> below;
    if (tier_) {
      if (Status bad = tier_->Settle(); !bad.ok()) return bad;
      std::vector<float> value(dim());
      Status read = tier_->ForEach([&](int64_t key, const char* record) {
        std::memcpy(value.data(), record, value.size() * sizeof(float));
        if (goes(tier_->Step(record), value.data())) below.push_back(key);
      });
      if (!read.ok()) return read;
    }
    const auto old = [&](const Entry& entry) {
      const Ref ref = entry.ref.load(std::memory_order_relaxed);
      return goes(entry.step(), IsRow(ref) ? content_->rows->Row(ref - 1) : nullptr);
    };
    const Leaving leaving = PrepareToRemove(old, std::vector<int64_t>(Index::kShards), parallel_for);
    int64_t rows = std::ssize(below);
    for (const auto& of_shard : leaving.rows) rows += std::ssize(of_shard);
    std::vector<int64_t> tombstones = Tombstones(below, leaving);
    NotePeak();
    std::lock_guard alone(gate_);
    if (!below.empty()) {
      if (Status bad = tier_->store().Erase(below.data(), std::ssize(below)); !bad.ok()) {
        content_->index.Discard();
        return bad;
      }
    }
    for (const int64_t key : below) tier_->changed.erase(key);
    removed_.swap(tombstones);
    if (removed) *removed = rows;
    Remove(leaving);
  } catch (const std::bad_alloc&) {
    content_->index.Discard();
    return OutOfMemory();
  }
  return Status();
}

// Whether so many more rows can be named.
Status Table::CheckRoom(int64_t more) const {
  const int64_t rows = content_->rows->taken();
  if (rows + more <= kMostRows) return Status();
  return Problem("A table holds below 2^31 rows in memory; it has ", rows, " and should take ", more,
                 " more: evict some, or give it ", "storage.");
}

// Those there will be when these are gone, too.
std::vector<int64_t> Table::Tombstones(const std::vector<int64_t>& below, const Leaving& leaving) const {
  std::vector<int64_t> keys = removed_;
  if (!has_base_) return keys;
  keys.insert(keys.end(), below.begin(), below.end());
  for (const auto& of_shard : leaving.keys) keys.insert(keys.end(), of_shard.begin(), of_shard.end());
  const auto more = keys.begin() + std::ssize(removed_);
  std::sort(more, keys.end());
  std::inplace_merge(keys.begin(), more, keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

// Makes the shards of the index anew that lose a key, with room for so many more.
Table::Leaving Table::PrepareToRemove(const Goes& goes, const std::vector<int64_t>& room, const ParallelFor& parallel_for) try {
  Leaving leaving{std::vector<std::vector<int64_t>>(Index::kShards), std::vector<std::vector<uint32_t>>(Index::kShards)};
  Index& index = content_->index;
  EachIndexShard(parallel_for, content_->rows->taken(), [&](int64_t s) {
    std::vector<int64_t>& keys = leaving.keys[s];
    index.ForEach(s, [&](const Entry& entry) {
      if (!goes(entry)) return;
      keys.push_back(entry.key.load(std::memory_order_relaxed));
      const Ref ref = entry.ref.load(std::memory_order_relaxed);
      if (IsRow(ref)) leaving.rows[s].push_back(ref - 1);
    });
    if (keys.empty()) return;
    auto next = keys.begin();  // entries come in the same order again
    index.Sift(s, index.size(s) - std::ssize(keys) + room[s], [&](const Entry& entry) {
      if (next == keys.end() || entry.key.load(std::memory_order_relaxed) != *next) return true;
      ++next;
      return false;
    });
  });
  int64_t rows = 0;
  for (const auto& of_shard : leaving.rows) rows += std::ssize(of_shard);
  content_->rows->ReserveFree(rows);
  return leaving;
} catch (const std::bad_alloc&) {
  content_->index.Discard();
  throw;
}

void Table::Remove(const Leaving& leaving) {
  for (int64_t s = 0; s < Index::kShards; ++s) {
    content_->index.Publish(s);
    content_->rows->Free(leaving.rows[s]);
  }
  content_->index.Reclaim();
}

TableStats Table::Stats() const {
  std::lock_guard writer(writer_);
  TableStats stats;
  stats.rows = content_->rows->taken();
  for (int64_t s = 0; s < Index::kShards; ++s) stats.candidates += content_->index.size(s);
  stats.candidates -= stats.rows;
  if (tier_) (void)tier_->Settle();
  stats.rows_below = tier_ ? tier_->rows() : 0;
  stats.rows += stats.rows_below;
  stats.bytes = content_->bytes() + (tier_ ? tier_->bytes() : 0);
  stats.peak_bytes = std::max(peak_bytes_, stats.bytes);
  stats.hits = hits_.load(std::memory_order_relaxed);
  stats.misses = misses_.load(std::memory_order_relaxed);
  stats.hits_below = hits_below_.load(std::memory_order_relaxed);
  stats.removed = std::ssize(removed_);
  stats.problem = demotion_ended_.problem();
  return stats;
}

}  // namespace ctrlab::embedding
