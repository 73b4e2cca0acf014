#include "table/table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <mutex>
#include <new>

#include "table/each_shard.h"
#include "table/messages.h"

namespace ctrlab::embedding {

Status Table::CheckOptions(const TableOptions& options) {
  const Initializer& initial = options.initializer;
  const Admission& admission = options.admission;
  if (options.dim < 1 || options.dim >= 1 << 16)
    return Problem("A table's dim must be in [1, 2^16); received ", options.dim, ".");
  if (options.format != RowFormat::kFloat32 &&
      (options.numbers < 1 || options.dim != RowWords(options.format, options.numbers))) {
    return Problem("A packed row has the words of its numbers; received ", options.dim, " for ", options.numbers, ".");
  }
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

Status Table::Make(const TableOptions& options, std::unique_ptr<Table>* table) {
  if (Status bad = CheckOptions(options); !bad.ok()) return bad;
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
  std::shared_ptr<SegmentStore> store;  // freed after all locks are released
  std::lock_guard writer(writer_);
  if (count != content_->rows->slots()) {
    if (HasRowsBelow()) {  // or had: a forked child can't know
      if (Status bad = tier_->store()->Find(nullptr, 0, nullptr); !bad.ok()) return bad;
    }
    if (const int64_t below = tier_ ? tier_->rows() : 0; below > 0)
      return Problem("Slots can't change while ", below, " rows lie in the tier below the memory; set them before rows sink.");
    try {
      auto rows = std::make_unique<Rows>(*content_->rows, count, initial);
      NotePeak(rows->bytes());
      log_.StartAnew(ClearChanged());
      std::lock_guard alone(gate_);
      if (tier_) store = tier_->Leave();
      AllMoved();
      content_->rows.swap(rows);
    } catch (const std::bad_alloc&) {
      return OutOfMemory();
    }
  }
  std::fill_n(slot_initial_, 2, 0.0f);
  std::copy_n(initial, count, slot_initial_);
  return Status();
}

void Table::FillNew(int64_t key, const Rows& rows, uint32_t row) const {
  float* value = rows.Row(row);
  initial_.Fill(key, value);
  for (int64_t s = 0; s < rows.slots(); ++s) std::fill_n(value + (1 + s) * dim(), dim(), slot_initial_[s]);
}

int64_t Table::Bytes() const {
  const auto fetched = static_cast<int64_t>(fetched_.capacity() + fetched_before_.capacity()) * 8;
  return content_->bytes() + log_.bytes() + fetched + (tier_ ? tier_->bytes() : 0);
}

void Table::NotePeak(int64_t more) { peak_bytes_ = std::max(peak_bytes_, Bytes() + more); }

ChangeLog::Clear Table::ClearChanged() const {
  return [this](int64_t key) { content_->index.Unmark(key, HashKey(key)); };
}

// Makes room to log this many keys per shard. Throws std::bad_alloc.
void Table::ReserveLog(const std::vector<int64_t>& more) {
  if (log_.on()) log_.Reserve(more, TotalRows(), ClearChanged());
}

// Logs a change of the entry's key, if the log is on; room for it was reserved.
void Table::NoteChange(int64_t shard, Entry* entry) {
  if (!log_.on() || entry->changed()) return;
  entry->stamp |= 1;
  log_.Note(shard, entry->key.load(std::memory_order_relaxed));
}

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
  (void)Relieve();
  Index::Old old;  // freed after all locks are released
  std::lock_guard writer(writer_);
  try {
    std::vector<int64_t> below;
    if (HasRowsBelow()) {
      const Record record = tier_->record();
      std::vector<float> value(dim());
      Status read = tier_->ForEach([&](int64_t key, const char* from) {
        if (content_->index.FindEntry(key, HashKey(key))) return;
        std::memcpy(value.data(), from, value.size() * sizeof(float));
        if (goes(record.Step(from), value.data())) below.push_back(key);
      });
      if (!read.ok()) return read;
      tier_->ReserveDead(std::ssize(below));
    }
    const auto is_old = [&](const Entry& entry) {
      const Ref ref = entry.ref.load(std::memory_order_relaxed);
      return goes(entry.step(), IsRow(ref) ? content_->rows->Row(ref - 1) : nullptr);
    };
    const Leaving leaving = PrepareToRemove(is_old, std::vector<int64_t>(Index::kShards), below, parallel_for);
    std::vector<int64_t> going(Index::kShards);
    int64_t rows = std::ssize(below);
    for (int64_t s = 0; s < Index::kShards; ++s) {
      rows += std::ssize(leaving.rows[s]), going[s] = std::ssize(leaving.keys[s]);
    }
    for (const int64_t key : below) ++going[Index::ShardOf(HashKey(key))];
    ReserveLog(going);
    NotePeak();
    // Nothing can be refused any more.
    if (log_.on()) {
      for (int64_t s = 0; s < Index::kShards; ++s) {
        for (const int64_t key : leaving.keys[s]) log_.Note(s, key);
      }
      for (const int64_t key : below) log_.Note(Index::ShardOf(HashKey(key)), key);
    }
    {
      std::lock_guard alone(gate_);
      old = PublishRemoval();
    }
    for (const auto& of_shard : leaving.rows) content_->rows->Free(of_shard);
    if (!below.empty()) tier_->NoteDead(below, std::ssize(below));
    WakeDemotion();
    if (removed) *removed = rows;
  } catch (const std::bad_alloc&) {
    content_->index.Discard();
    return OutOfMemory();
  }
  return Status();
}

// Whether `more` more rows can be numbered.
Status Table::CheckRoom(int64_t more) const {
  const int64_t rows = content_->rows->taken();
  if (rows + more <= kMostRows) return Status();
  return Problem("A table holds below 2^31 rows in memory; it has ", rows, " and should take ", more,
                 " more: evict some, or give it ", "storage.");
}

// Makes new copies of the shards that lose a key, or in which a removed key has a row below, with room for `room` more entries.
Table::Leaving Table::PrepareToRemove(const Goes& goes, const std::vector<int64_t>& room, const std::vector<int64_t>& below,
                                      const ParallelFor& parallel_for) try {
  Leaving leaving{std::vector<std::vector<int64_t>>(Index::kShards), std::vector<std::vector<uint32_t>>(Index::kShards)};
  std::vector<std::vector<int64_t>> gone(Index::kShards);
  for (const int64_t key : below) gone[Index::ShardOf(HashKey(key))].push_back(key);
  // While a dead record of a removed key may be below, the key must keep an entry, because the entry marks the record as dead.
  const bool dead = tier_ && !tier_->dead().empty();
  Index& index = content_->index;
  EachIndexShard(parallel_for, content_->rows->taken() + std::ssize(below), [&](int64_t s) {
    std::vector<int64_t>& keys = leaving.keys[s];
    index.ForEach(s, [&](const Entry& entry) {
      if (!goes(entry)) return;
      keys.push_back(entry.key.load(std::memory_order_relaxed));
      const Ref ref = entry.ref.load(std::memory_order_relaxed);
      if (IsRow(ref)) leaving.rows[s].push_back(ref - 1);
    });
    if (keys.empty() && gone[s].empty()) return;
    auto next = keys.begin();  // entries come in the same order again
    const int64_t staying = index.entries(s) - (dead ? 0 : std::ssize(keys));
    index.Sift(s, staying + std::ssize(gone[s]) + room[s], [&](const Entry& entry) {
      if (next == keys.end() || entry.key.load(std::memory_order_relaxed) != *next) return true;
      ++next;
      return false;
    });
    for (const int64_t key : gone[s]) index.AddGone(key, HashKey(key));
    if (!dead) return;
    for (const int64_t key : keys) index.AddGone(key, HashKey(key));
  });
  int64_t rows = 0;
  for (const auto& of_shard : leaving.rows) rows += std::ssize(of_shard);
  content_->rows->ReserveFree(rows);
  return leaving;
} catch (const std::bad_alloc&) {
  content_->index.Discard();
  throw;
}

// Returns the arrays that readers may have used, for the caller to free later. The caller also frees the rows.
Index::Old Table::PublishRemoval() {
  for (int64_t s = 0; s < Index::kShards; ++s) content_->index.Publish(s);
  AllMoved();
  return content_->index.TakeOld();
}

TableStats Table::Stats() const {
  std::lock_guard writer(writer_);
  const Index& index = content_->index;
  TableStats stats;
  stats.rows = content_->rows->taken();
  for (int64_t s = 0; s < Index::kShards; ++s) stats.candidates += index.entries(s) - index.gone(s);
  stats.candidates -= stats.rows;
  stats.rows_below = tier_ ? tier_->rows() : 0;
  stats.rows += stats.rows_below;
  stats.bytes = Bytes();
  stats.peak_bytes = std::max(peak_bytes_, stats.bytes);
  stats.hits = hits_.load(std::memory_order_relaxed);
  stats.misses = misses_.load(std::memory_order_relaxed);
  stats.hits_below = hits_below_.load(std::memory_order_relaxed);
  stats.logged = log_.size();
  stats.problem = demotion_ended_.problem();
  return stats;
}

int64_t Table::NextId() {
  static std::atomic<int64_t> last = 0;
  return ++last;
}

Status Table::Stage(std::unique_ptr<Table>* stage) const try {
  std::unique_ptr<Table> made(new Table(options_));
  std::lock_guard writer(writer_);
  made->content_ = std::make_unique<Content>(dim(), content_->rows->slots(), options_.admission);
  if (tier_) made->tier_ = std::make_unique<Tier>(tier_->options());
  std::copy_n(slot_initial_, 2, made->slot_initial_);
  made->stage_of_ = id_;
  *stage = std::move(made);
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

Status Table::Adopt(Table* stage) {
  const Status none =
      Status::Constant("A table adopts a stage that it made and has not adopted yet; received another: stage the state anew.");
  if (stage == this) return none;
  std::scoped_lock writers(writer_, stage->writer_);
  if (stage->stage_of_ != id_) return none;
  stage->stage_of_ = 0;
  NotePeak(stage->Bytes());
  // No consumer has seen the other content.
  log_.StartAnew(ClearChanged());
  stage->log_.StartAnew(stage->ClearChanged());
  Gate* gates[] = {&gate_, &stage->gate_};  // the stage's own thread may be active, too
  std::sort(std::begin(gates), std::end(gates), std::less<>());
  std::lock_guard alone(*gates[0]);
  std::lock_guard both_alone(*gates[1]);
  content_.swap(stage->content_);
  if (tier_) tier_->Swap(*stage->tier_);
  fetched_.clear(), fetched_before_.clear();
  AllMoved(), stage->AllMoved();
  return Status();
}

}  // namespace ctrlab::embedding
