// One table's part in an optimizer step. Gather decides which keys get a row and moves rows up into memory, Reserve makes all other
// room that may be needed; both work shard by shard while readers continue. Admit counts and admits keys and makes rows that no
// reader sees yet. Apply, with exclusive access, publishes these rows and changes values and slots. Only Gather and Reserve can
// fail. By then only a Bloom filter has counted, and Cancel restores it.

#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/optimizer_step/optimizer_rules.h"
#include "table/each_shard.h"
#include "table/table.h"

namespace ctrlab::embedding {

class Table::Step {
  static constexpr int64_t kAhead = 16;   // distance between the key that is prefetched and the key that is processed
  static constexpr int64_t kNone = -1;    // no row
  static constexpr int64_t kComing = -2;  // a row that is still below
  static constexpr int64_t kMostFrequency = ~uint32_t{0};

 public:
  Step(Table& table, const MergedBatch& batch, const StepRule& rule, const ParallelFor& parallel_for)
      : table_(table),
        content_(*table.content_),
        batch_(batch),
        rule_(rule),
        parallel_for_(parallel_for),
        step_(static_cast<int64_t>(rule.step)) {}

  // Throws std::bad_alloc. It has changed only which rows are in memory, and the filter, until Cancel.
  Status Gather() {
    Sort();
    RecordsRead read;
    if (table_.HasRowsBelow()) {
      std::vector<int64_t> absent;
      table_.AddAbsent(batch_.keys, batch_.size, &absent);
      Status status = ReadRecords(*table_.tier_->store(), table_.tier_->record(), absent, parallel_for_, &read);
      if (!status.ok()) return status;
    }
    EachShard([&](int64_t s) { Look(s, read.keys); });
    if (table_.options_.admission.kind == AdmissionKind::kBloom) CountInFilter();
    EachShard([&](int64_t s) { Decide(s, table_.log_.on()); });
    const int64_t more = Made() + std::ssize(read.keys);
    if (Status bad = table_.CheckRoom(more); !bad.ok()) return bad;
    if (table_.tier_) {
      if (Status bad = table_.Sink(more, {batch_.keys, static_cast<size_t>(batch_.size)}); !bad.ok()) return bad;
      table_.BringUp(read);
    }
    return Status();
  }

  // Throws std::bad_alloc. Memory, and consumers that the change log has no room for, are not given back by Cancel.
  void Reserve() {
    content_.rows->Reserve(Made());
    table_.ReserveLog(changes_);
    EachShard([&](int64_t s) {
      new_[s].reserve(made_[s]);
      // Rows that moved down or up have moved the others' entries.
      if (content_.index.Reserve(s, inserted_[s]) || table_.tier_) FindAgain(s);
    });
  }

  // Restores what Gather counted, if the step is not taken.
  void Cancel() { content_.filter.Restore(before_); }

  // Counts, admits and makes rows; until Apply their entries are without a row. From here on nothing allocates, because other
  // tables may already have taken the step.
  void Admit() {
    int64_t first = 0;
    std::array<int64_t, Index::kShards> firsts;
    for (int64_t s = 0; s < Index::kShards; ++s) {
      firsts[s] = first;
      first += made_[s];
    }
    EachShard([&](int64_t s) { Enter(s, firsts[s]); });
    content_.rows->Took(first);
    table_.NotePeak();
  }

  // The sum of squares of the gradients of all keys that have a row once they are admitted.
  double SquaredNorm() {
    const int64_t piece = RowsOfPiece(table_.dim());
    parallel_for_(Pieces(), kPiece / 8, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) squares_[p] = Squares(p * piece, std::min(batch_.size, (p + 1) * piece));
    });
    return std::accumulate(squares_.begin(), squares_.end(), 0.0);
  }

  // The factor, from the norm, for these gradients.
  float Scale() { return rule_.clip_norm > 0 ? ClipScale(rule_, SquaredNorm()) : 1; }

  // Publishes the new rows, changes values and slots.
  void Apply(float scale, Index::Old* old) {
    std::lock_guard alone(table_.gate_);
    for (const auto& of_shard : new_) {
      for (const auto& [entry, row] : of_shard) entry->ref.store(row + 1, std::memory_order_release);  // no candidate was removed
    }
    const int64_t dim = table_.dim();
    WithRule(rule_, [&](const auto& update) {
      using Rule = std::decay_t<decltype(update)>;
      parallel_for_(batch_.size, 20 + 4 * dim, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          if (i + kAhead < end && rows_[i + kAhead] != kNone) {
            const float* row = content_.rows->Row(static_cast<uint32_t>(rows_[i + kAhead]));
            for (int64_t o = 0; o < dim * (1 + Rule::kSlots); o += kLanes) ctrlab::Prefetch(row + o, 0);
          }
          if (rows_[i] == kNone) continue;
          float* row = content_.rows->Row(static_cast<uint32_t>(rows_[i]));
          ctrlab::Step(update, StepRow<Rule::kSlots>{row, row + dim, row + 2 * dim, batch_.gradient + i * dim}, dim, scale);
        }
      });
    });
    *old = content_.index.TakeOld();
    table_.WakeDemotion();
  }

 private:
  // Sorts the keys' indices by shard, ascending within a shard.
  void Sort() {
    hashes_.resize(batch_.size);
    order_.resize(batch_.size);
    entries_.resize(batch_.size);
    rows_.assign(batch_.size, kNone);
    admitted_.assign(batch_.size, 0);
    for (std::vector<int64_t>* of_shard : {&made_, &inserted_, &changes_}) of_shard->assign(Index::kShards, 0);
    squares_.resize(Pieces());
    new_.resize(Index::kShards);
    ends_.assign(Index::kShards + 1, 0);
    for (int64_t i = 0; i < batch_.size; ++i) {
      hashes_[i] = HashKey(batch_.keys[i]);
      ++ends_[Index::ShardOf(hashes_[i]) + 1];
    }
    for (int64_t s = 0; s < Index::kShards; ++s) ends_[s + 1] += ends_[s];
    std::vector<int64_t> place(ends_.begin(), ends_.end() - 1);
    for (int64_t i = 0; i < batch_.size; ++i) order_[place[Index::ShardOf(hashes_[i])]++] = static_cast<int32_t>(i);
  }

  template <class Visit>
  void EachShard(const Visit& visit) const {
    EachIndexShard(parallel_for_, batch_.size, visit);
  }

  // Calls visit(index of a key) for a shard's keys, each a while after prefetch by ask(its index).
  template <class Ask, class Visit>
  void EachKey(int64_t s, const Ask& ask, const Visit& visit) const {
    const int64_t end = ends_[s + 1];
    for (int64_t k = ends_[s]; k < std::min(ends_[s] + kAhead, end); ++k) ask(order_[k]);
    for (int64_t k = ends_[s]; k < end; ++k) {
      if (k + kAhead < end) ask(order_[k + kAhead]);
      visit(order_[k]);
    }
  }

  // The same, with each key's entry, which is stored.
  template <class Visit>
  void FindEach(int64_t s, const Visit& visit) {
    const auto ask = [&](int64_t i) { content_.index.Ask(hashes_[i]); };
    EachKey(s, ask, [&](int64_t i) {
      entries_[i] = content_.index.FindEntry(batch_.keys[i], hashes_[i]);
      visit(i);
    });
  }

  // Finds the entries again after they have moved.
  void FindAgain(int64_t s) {
    FindEach(s, [&](int64_t i) {
      const Ref ref = RefOf(i);
      rows_[i] = IsRow(ref) ? int64_t{ref} - 1 : kNone;
    });
  }

  Ref RefOf(int64_t i) const { return entries_[i] ? entries_[i]->ref.load(std::memory_order_relaxed) : 0; }

  // Finds existing rows; `below`: the keys, ascending, whose rows were read from below.
  void Look(int64_t s, const std::vector<int64_t>& below) {
    FindEach(s, [&](int64_t i) {
      const Ref ref = RefOf(i);
      if (IsRow(ref)) rows_[i] = int64_t{ref} - 1;
      else if (ref == 0 && std::binary_search(below.begin(), below.end(), batch_.keys[i])) rows_[i] = kComing;
    });
  }

  // Counts all keys without a row in the filter, and saves the previous counters.
  void CountInFilter() {
    std::vector<int64_t> unknown;
    for (int64_t i = 0; i < batch_.size; ++i) {
      if (rows_[i] == kNone) unknown.push_back(i);
    }
    before_ = content_.filter.Before(unknown, batch_.keys);
    parallel_for_(std::ssize(unknown), 100, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) content_.filter.Add(batch_.keys[unknown[k]], batch_.counts[unknown[k]]);
    });
  }

  // The count of a key without a row, including this step.
  int64_t CountOf(int64_t i) const {
    if (content_.filter.bytes()) return content_.filter.Count(batch_.keys[i]);
    const Ref ref = RefOf(i);  // 0 times for a removed key
    return std::min((ref ? int64_t{ref - kCandidate} : 0) + std::min(batch_.counts[i], kMostCount), kMostCount);
  }

  // Decides which keys of a shard get a row, and counts its new rows and entries, and the keys for the change log.
  void Decide(int64_t s, bool logged) {
    for (int64_t k = ends_[s]; k < ends_[s + 1]; ++k) {
      const int64_t i = order_[k];
      if (!logged && rows_[i] != kNone) continue;  // avoids loading its entry into the cache again
      const bool row = rows_[i] == kNone && CountOf(i) >= table_.options_.admission.threshold;
      const bool counted = rows_[i] != kNone || row || !content_.filter.bytes();
      admitted_[i] = row;
      made_[s] += row;
      inserted_[s] += !entries_[i] && counted && rows_[i] != kComing;
      changes_[s] += logged && counted && !(entries_[i] && entries_[i]->changed());
    }
  }

  void Enter(int64_t s, int64_t next) {
    const uint32_t stamp = static_cast<uint32_t>(step_ << 1);
    const auto ask = [&](int64_t i) {
      ctrlab::Prefetch(entries_[i], 0);
      if (rows_[i] != kNone) ctrlab::Prefetch(&content_.rows->Frequency(static_cast<uint32_t>(rows_[i])), 0);
    };
    EachKey(s, ask, [&](int64_t i) {
      const int64_t key = batch_.keys[i];
      Entry* entry = entries_[i];
      if (rows_[i] != kNone) {
        uint32_t& frequency = content_.rows->Frequency(static_cast<uint32_t>(rows_[i]));
        frequency = static_cast<uint32_t>(std::min(kMostFrequency, frequency + std::min(kMostFrequency, batch_.counts[i])));
        entry->stamp = stamp | entry->changed();
        table_.NoteChange(s, entry);
        return;
      }
      const int64_t count = CountOf(i);
      if (!admitted_[i] && content_.filter.bytes()) return;
      const Ref ref = kCandidate + static_cast<Ref>(std::min(count, kMostCount));
      if (entry) {
        entry->stamp = stamp | entry->changed();
        content_.index.SetRef(entry, hashes_[i], ref);
      } else {
        entry = content_.index.Insert(key, hashes_[i], ref, stamp);
      }
      table_.NoteChange(s, entry);
      if (!admitted_[i]) return;
      const uint32_t row = content_.rows->Take(next++);
      rows_[i] = row;
      // A saturated counter of the Bloom filter may be below the count of this batch alone.
      content_.rows->Frequency(row) = static_cast<uint32_t>(std::min(kMostFrequency, std::max(count, batch_.counts[i])));
      table_.FillNew(key, *content_.rows, row);
      new_[s].push_back({entry, row});
    });
  }

  int64_t Pieces() const {
    const int64_t piece = RowsOfPiece(table_.dim());
    return (batch_.size + piece - 1) / piece;
  }

  int64_t Made() const { return std::accumulate(made_.begin(), made_.end(), int64_t{0}); }

  // The sum of squares over the gradient's rows [begin, end) whose key has or gets a row, in runs, as in the kernel for dense
  // tables.
  double Squares(int64_t begin, int64_t end) const {
    double sum = 0;
    while (begin < end) {
      int64_t last = begin;
      while (last < end && (rows_[last] != kNone || admitted_[last])) ++last;
      sum += SumOfSquares(batch_.gradient + begin * table_.dim(), (last - begin) * table_.dim());
      begin = last + 1;
    }
    return sum;
  }

  Table& table_;
  Content& content_;
  const MergedBatch& batch_;
  const StepRule& rule_;
  const ParallelFor& parallel_for_;
  const int64_t step_;
  std::vector<uint64_t> hashes_;
  std::vector<int32_t> order_;                                 // the keys' indices, shard by shard
  std::vector<int64_t> ends_;                                  // a shard's keys are order_[ends_[s]] to order_[ends_[s + 1] - 1]
  std::vector<Entry*> entries_;                                // the keys' entries in the index, or null
  std::vector<int64_t> rows_;                                  // the keys' rows
  std::vector<char> admitted_;                                 // the keys that get a row in this step
  std::vector<int64_t> made_, inserted_, changes_;             // rows and entries that each shard makes, keys that it logs
  std::vector<std::vector<std::pair<Entry*, uint32_t>>> new_;  // these rows, and the entries that will point to them
  std::vector<double> squares_;
  BloomFilter::Counters before_;  // the counters of the filter before this step
};

}  // namespace ctrlab::embedding
