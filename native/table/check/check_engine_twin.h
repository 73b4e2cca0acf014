// A table and its twin based on std::map, which take the same calls and must hold the same. They share the initial values (which
// other tests compare with NumPy) and the optimizer's kernel. The twin runs the kernel on a dense table, so results are bitwise
// equal.

#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <set>

#include "check_engine_cases.h"
#include "check_engine_merge.h"
#include "table/lookup.h"

namespace ctrlab::check::engine {

class Pair {
 public:
  explicit Pair(const Case& test) : test_(test) {
    options_.dim = test.dim;
    options_.initializer = {InitialKind::kTruncatedNormal, 0, test.spread, 17};
    options_.admission = {test.admission, test.threshold, 100'000, 1e-9};
    Must(Table::Make(options_, &table_));
    if (test.memory_rows) Must(table_->SetTier(TierOf(test.memory_rows, static_cast<Cache>(Uniform(0, 2)), &refuse_in_)));
    Must(table_->SetSlots(Slots(), kInitial));
  }

  int64_t step() const { return step_; }

  void Update(int64_t step) {
    step_ = step;
    std::map<int64_t, int64_t> batch;
    for (int64_t k = Uniform(0, 400); k > 0; --k) batch[AnyOf(10 * step)] += Uniform(0, 60) ? 1 : 300;
    std::vector<int64_t> keys, counts, with_row;
    Floats gradient = RandomFloats(std::ssize(batch) * test_.dim), dense[3], applied;
    for (const auto& [key, count] : batch) {
      Twin& one = twin_.try_emplace(key).first->second;
      one.frequency += count, one.step = step;
      if (!one.row && test_.admission == AdmissionKind::kBloom) {
        one.frequency = std::max<int64_t>(std::min<int64_t>(255, filter_[key] += count), count);
      }
      if (!one.row && one.frequency >= test_.threshold) one.row = NewRow(key);
      if (HasEntry(one)) Note(key);
      if (one.row) {
        with_row.push_back(key);
        for (int s = 0; s < 3; ++s) dense[s].insert(dense[s].end(), (*one.row)[s].begin(), (*one.row)[s].end());
        applied.insert(applied.end(), gradient.begin() + std::ssize(keys) * test_.dim,
                       gradient.begin() + (std::ssize(keys) + 1) * test_.dim);
      }
      keys.push_back(key), counts.push_back(count);
    }
    StepRule rule{test_.kind, 0.9, 0.999, 1e-8, 0.01, 0.02, test_.clip_norm, 0.1, static_cast<double>(step)};
    const MergedBatch merged{keys.data(), counts.data(), gradient.data(), std::ssize(keys)};
    if (Uniform(0, 2)) {
      double norm = -1, squares = 0;
      for (const float g : applied) squares += double{g} * g;
      const TableStep one{table_.get(), merged};
      OnFullDisk([&] { return Norms({&one, 1}, rule, pools[Uniform(0, 3)].parallel_for, &norm); });
      if (!(std::abs(norm - squares) <= 1e-6 * squares)) Wrong("another norm before the step", step);
    }
    OnFullDisk([&] { return table_->Update(merged, rule, pools[step % 3].parallel_for); });
    // After a batch of more keys than that, an empty one leaves it to the table's thread to make room.
    if (!keys.empty() && std::ssize(keys) < test_.memory_rows) {
      const TableStats stats = table_->Stats();
      if (stats.rows - stats.rows_below > test_.memory_rows)
        Wrong("more rows in memory than asked for", stats.rows - stats.rows_below);
    }
    std::vector<int64_t> ids(with_row.size());
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = i;
    const StepVariable variable{dense[0].data(), {dense[1].data(), dense[2].data()}, ids.data(), applied.data(), std::ssize(ids),
                                test_.dim};
    ctrlab_optimizer_step(&rule, &variable, 1, &pools[0].parallel_for);
    // If some rows of the gradient are left out, its norm is summed in other pieces.
    exact_ = exact_ && (test_.clip_norm == 0 || with_row.size() == keys.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      for (int s = 0; s < 3; ++s) std::copy_n(dense[s].data() + i * test_.dim, test_.dim, (*twin_[with_row[i]].row)[s].data());
    }
  }

  void EvictSteps(int64_t step, int64_t steps_to_live) {
    refuse_in_ = static_cast<int>(Uniform(1, 12));  // a disk that refuses must not keep rows from being evicted
    Must(table_->EvictSteps(step, steps_to_live, pools[step % 3].parallel_for, nullptr));
    std::erase_if(twin_,
                  [&](const auto& one) { return Goes(one, step - one.second.step > steps_to_live && HasEntry(one.second)); });
  }

  void EvictNorms(double threshold) {
    refuse_in_ = static_cast<int>(Uniform(1, 12));
    Must(table_->EvictNorms(threshold, pools[2].parallel_for, nullptr));
    std::erase_if(twin_, [&](const auto& one) {
      double sum = 0;
      if (one.second.row) {
        for (const float x : (*one.second.row)[0]) sum += double{x} * x;
      }
      return Goes(one, one.second.row && std::sqrt(sum) < threshold);
    });
  }

  // Both kinds of lookup, pooled and per key, for keys with and without rows.
  void Lookup() const {
    const int64_t rows = Uniform(1, 60), dim = test_.dim;
    std::vector<int64_t> ids, single(rows), splits{0};
    for (int64_t b = 0; b < rows; ++b) {
      for (int64_t n = Uniform(0, 5); n > 0; --n) ids.push_back(RandomKey());
      splits.push_back(std::ssize(ids));
      single[b] = RandomKey();
    }
    const auto exactly = std::unique_ptr<int64_t[]>(new int64_t[ids.size()]);
    std::copy(ids.begin(), ids.end(), exactly.get());
    const LookupColumn columns[] = {{exactly.get(), splits.data(), 0, 0, 0, kSum},
                                    {exactly.get(), splits.data(), 1, 0, dim, kMean},
                                    {single.data(), nullptr, 0, 0, 2 * dim, kSum},
                                    {exactly.get(), splits.data(), 0, 1, 0, kRows}};
    const LookupTable tables[] = {{0, dim}, {0, dim}};
    const int64_t widths[] = {3 * dim, dim};
    const LookupInput input{columns, 4, tables, 2, widths, rows};
    Table* const both[] = {table_.get(), table_.get()};
    for (const bool training : {false, true}) {
      const auto pooled = Exactly(Nans(rows * 3 * dim)), each = Exactly(Nans(std::ssize(ids) * dim));
      float* const out[] = {pooled.get(), each.get()};
      Must(ctrlab::embedding::Lookup(input, both, training, out, pools[Uniform(0, 3)].parallel_for));
      for (int64_t b = 0; b < rows; ++b) {
        Floats sum(dim);
        for (int64_t i = splits[b]; i < splits[b + 1]; ++i) {
          const Floats row = Read(ids[i], training);
          SameRow("a row looked up", ids[i], row, each.get() + i * dim);
          for (int64_t o = 0; o < dim; ++o) sum[o] += row[o];
        }
        SameRow("a sum", b, sum, pooled.get() + b * 3 * dim);
        if (splits[b + 1] - splits[b] > 1) {
          for (float& x : sum) x /= static_cast<float>(splits[b + 1] - splits[b]);
        }
        SameRow("a mean", b, sum, pooled.get() + b * 3 * dim + dim);
        SameRow("a single key", b, Read(single[b], training), pooled.get() + b * 3 * dim + 2 * dim);
      }
    }
    Merge(input, columns[3]);
  }

  Saved Save(Shard shard = {}) {
    Saved saved;
    Must(table_->Export(shard, saved.Room(test_.dim, Slots()), pools[Uniform(0, 3)].parallel_for));
    Check(saved, twin_, [&](int64_t key) { return shard.Has(key); });
    return saved;
  }

  // Brings a consumer's copy to the current state of the table, in parts. Sometimes it does not take all parts, or does not
  // confirm: then they are given again.
  void BringUpToDate(const std::string& name, Pair* copy) {
    std::unique_ptr<Cut> cut;
    Must(table_->CutFor(name, pools[Uniform(0, 3)].parallel_for, &cut));
    Consumer& consumer = consumers_[name];
    if ((cut->since() >= 0) != consumer.known) Wrong("a consumer that is not given what it should be", cut->since());
    if (cut->version() <= version_) Wrong("a version that did not rise", cut->version());
    version_ = cut->version();
    const std::map<int64_t, Twin> then = twin_;
    const Consumer was = std::exchange(consumer, {consumer.known, consumer.since, {}});
    for (int64_t k = Uniform(0, 3) / 2; k > 0; --k) Update(step_ + 1);  // a cut is from one moment, whatever changes afterwards
    Saved saved;
    while (!cut->done()) {
      Saved part;
      Must(cut->Next(Uniform(1, 200), part.Room(test_.dim, Slots())));
      saved.Append(part);
    }
    const StateSizes said = cut->sizes(), came = saved.Sizes();
    if (said.rows != came.rows || said.candidates != came.candidates || said.removed != came.removed ||
        said.filter_bytes != came.filter_bytes)
      Wrong("another size than was said", came.rows);
    Check(saved, then, [&](int64_t key) { return !was.known || was.since.contains(key); });
    std::vector<int64_t> gone;
    std::copy_if(was.since.begin(), was.since.end(), std::back_inserter(gone), [&](int64_t key) {
      const auto found = then.find(key);
      return was.known && (found == then.end() || !HasEntry(found->second));
    });
    if (saved.removed != gone) Wrong("other tombstones", std::ssize(gone));
    if (!Uniform(0, 4)) return;
    copy->Import(was.known ? ImportKind::kChanges : ImportKind::kAll, saved);
    if (!Uniform(0, 4)) return;
    Must(table_->Confirm(name, cut->version()));
    consumer.known = true, consumer.since = consumer.later;
  }

  bool UpToDate(const std::string& name) const {
    const auto found = consumers_.find(name);
    return found != consumers_.end() && found->second.known && found->second.since.empty();
  }

  void Import(ImportKind kind, const Saved& saved) {
    Must(table_->Import(kind, {}, saved.Sizes(), Slots(), saved.In(), pools[Uniform(0, 3)].parallel_for));
  }

  // Joins the table from its shards, which were saved separately.
  void Reshard(int64_t count) {
    Pair parts(test_);
    for (int64_t j = 0; j < count; ++j) {
      const Saved saved = Save({static_cast<uint64_t>(j), static_cast<uint64_t>(count)});
      parts.Import(j == 0 ? ImportKind::kAll : ImportKind::kMore, saved);
    }
    Same(parts);
  }

  // Imports the table's own state in parts, above a disk that may refuse. Afterwards the log knows no consumer.
  void Reload() {
    const Saved saved = Save();
    std::unique_ptr<Table> stage;
    Must(table_->Stage(&stage));
    refuse_in_ = static_cast<int>(Uniform(1, 6));
    const int64_t parts = Uniform(1, 4);
    for (int64_t j = 0; j < parts; ++j) {
      Must(stage->Import(ImportKind::kMore, {static_cast<uint64_t>(j), static_cast<uint64_t>(parts)}, saved.Sizes(), Slots(),
                         saved.In(), pools[Uniform(0, 3)].parallel_for));
    }
    Must(table_->Adopt(stage.get()));
    if (table_->Adopt(stage.get()).ok()) Wrong("a stage that was adopted twice", 0);
    consumers_.clear();
    Save();
  }

  // Calls that must change nothing.
  void Refuse() {
    const StepRule rule{test_.kind, 0.9, 0.999, 1e-8, 0, 0, 0, 0.1, 1};
    const int64_t keys[] = {3, 3}, counts[] = {1, 1};
    const Floats gradient(2 * test_.dim);
    if (table_->Update({keys, counts, gradient.data(), 2}, rule, pools[0].parallel_for).ok())
      Wrong("a key twice in an update", 3);
    const MakeRoom none = [](const StateSizes&, StateOut*) { return Status("no room"); };
    if (table_->Export({}, none, pools[0].parallel_for).problem() != "no room") Wrong("a save without room", 0);
    for (const auto& [name, consumer] : consumers_) {
      if (table_->Confirm(name, version_ + 1).ok()) Wrong("a version confirmed that no cut gave", version_ + 1);
    }
    Saved twice;
    StateOut room;
    Must(twice.Room(test_.dim, Slots())({2, 0, table_->filter_bytes(), 0}, &room));
    twice.keys = {5, 5};
    if (table_->Import(ImportKind::kMore, {}, twice.Sizes(), Slots(), twice.In(), pools[2].parallel_for).ok())
      Wrong("a key twice in a state", 5);
  }

  // Checks that another table holds what the twin does.
  void Same(const Pair& other) {
    const Saved saved = Save();
    Pair same(test_);
    same.table_.swap(const_cast<Pair&>(other).table_);
    same.twin_ = twin_, same.exact_ = exact_;
    if (same.Save().filter != saved.filter) Wrong("another filter", 0);
    same.table_.swap(const_cast<Pair&>(other).table_);
    int64_t rows = 0, entries = 0;
    for (const auto& one : twin_) rows += one.second.row.has_value(), entries += HasEntry(one.second);
    const TableStats stats = table_->Stats();
    if (stats.rows != rows || stats.candidates != entries - rows) Wrong("other statistics", stats.rows);
    if (consumers_.empty() && stats.logged > 0) Wrong("a log for nobody", stats.logged);
  }

 private:
  using Row = std::array<Floats, 3>;  // value and slots
  struct Twin {
    int64_t frequency = 0, step = 0;
    std::optional<Row> row;
  };
  struct Consumer {
    bool known = false;              // it has confirmed a version
    std::set<int64_t> since, later;  // keys changed since that version; since its last cut
  };

  static constexpr float kInitial[] = {0.1f, 0.2f};

  // What a full disk prevented is done when the call is repeated.
  template <class Call>
  void OnFullDisk(const Call& call) {
    refuse_in_ = static_cast<int>(Uniform(1, 12));
    for (Status status = call(); !status.ok(); status = call()) {
      if (status.problem() != "the disk is full") Must(status);
    }
    refuse_in_ = 0;
  }

  int64_t Slots() const { return test_.kind == kSgd ? 0 : test_.kind == kAdagrad ? 1 : 2; }

  // A key that is only in a Bloom filter is not a key of the table.
  bool HasEntry(const Twin& one) const { return one.row || test_.admission != AdmissionKind::kBloom; }

  Row NewRow(int64_t key) const {
    Row row{Floats(test_.dim), Floats(test_.dim, kInitial[0]), Floats(test_.dim, kInitial[1])};
    InitialValues(options_.initializer, test_.dim).Fill(key, row[0].data());
    return row;
  }

  template <class One>
  bool Goes(const One& one, bool goes) {
    if (goes) Note(one.first);
    return goes;
  }

  void Note(int64_t key) {
    for (auto& [name, consumer] : consumers_) consumer.since.insert(key), consumer.later.insert(key);
  }

  // Checks that a state holds what the twin does, for the keys that it should contain.
  template <class Wanted>
  void Check(const Saved& saved, const std::map<int64_t, Twin>& twin, const Wanted& wanted) const {
    int64_t rows = 0, candidates = 0;
    for (const auto& [key, one] : twin) {
      if (wanted(key) && HasEntry(one)) ++(one.row ? rows : candidates);
    }
    if (rows != std::ssize(saved.keys) || candidates != std::ssize(saved.candidate_keys))
      Wrong("another number of keys saved", rows);
    std::set<int64_t> seen;
    for (size_t i = 0; i < saved.keys.size(); ++i) {
      const auto found = twin.find(saved.keys[i]);
      if (found == twin.end() || !found->second.row || !wanted(saved.keys[i]) || !seen.insert(saved.keys[i]).second)
        Wrong("a row saved that should not", saved.keys[i]);
      if (saved.frequencies[i] != found->second.frequency || saved.steps[i] != found->second.step)
        Wrong("another frequency or step", saved.keys[i]);
      SameRow("a saved value", saved.keys[i], (*found->second.row)[0], &saved.values[i * test_.dim]);
      for (int64_t s = 0; s < Slots(); ++s)
        SameRow("a saved slot", saved.keys[i], (*found->second.row)[1 + s], &saved.slots[s][i * test_.dim]);
    }
    for (size_t i = 0; i < saved.candidate_keys.size(); ++i) {
      const Twin& one = twin.at(saved.candidate_keys[i]);
      if (one.row || one.frequency != saved.candidate_counts[i] || one.step != saved.candidate_steps[i])
        Wrong("another candidate", saved.candidate_keys[i]);
    }
  }

  Floats Read(int64_t key, bool training) const {
    const auto found = twin_.find(key);
    if (found != twin_.end() && found->second.row) return (*found->second.row)[0];
    return training ? NewRow(key)[0] : Floats(test_.dim);
  }

  int64_t AnyOf(int64_t first) const { return test_.keys[Uniform(0, std::min<int64_t>(std::ssize(test_.keys), first))]; }

  int64_t RandomKey() const { return AnyOf(std::ssize(test_.keys)); }

  void SameRow(const char* what, int64_t key, const Floats& expected, const float* received) const {
    for (int64_t o = 0; o < test_.dim; ++o) {
      const float apart = std::abs(received[o] - expected[o]);
      if (!(apart <= (exact_ ? 0 : 1e-5f * std::max(1.0f, std::abs(expected[o]))))) Wrong(std::string(what) + " is another", key);
    }
  }

  Case test_;
  TableOptions options_;
  std::unique_ptr<Table> table_;
  std::map<int64_t, Twin> twin_;
  std::map<int64_t, int64_t> filter_;  // what a Bloom filter has counted; it forgets nothing
  std::map<std::string, Consumer> consumers_;
  int64_t version_ = 0, step_ = 0;
  bool exact_ = true;
  std::atomic<int> refuse_in_ = 0;  // calls until the tier's store refuses one
};

}  // namespace ctrlab::check::engine
