// What goes on while a table's writer is at work, and when the machine's memory does not suffice.

#pragma once

#include <condition_variable>
#include <future>
#include <tuple>

#include "check_engine_cases.h"
#include "embedding/lookup.h"

namespace ctrlab::check::engine {

extern int64_t fail_in;  // allocations until one fails, where one thread is at work: failing_new.cc

// One step of SGD on these keys, which takes 1 from each row.
inline Status Step(Table* table, const std::vector<int64_t>& keys, int64_t step, const Pool& pool) {
  const std::vector<int64_t> counts(keys.size(), 1);
  const Floats gradient(keys.size() * table->dim(), 1.0f);
  StepRule rule{};
  rule.kind = kSgd, rule.learning_rate = 1, rule.step = static_cast<double>(step);
  return table->Update({keys.data(), counts.data(), gradient.data(), std::ssize(keys)}, rule, pool.parallel_for);
}

inline Floats Read(Table* table, const std::vector<int64_t>& keys, const Pool& pool) {
  const LookupColumn column{keys.data(), nullptr, 0, 0, 0, kRows};
  const LookupTable shape{0, table->dim()};
  const int64_t width = table->dim();
  Floats out(keys.size() * width);
  float* to = out.data();
  Must(ctrlab::embedding::Lookup({&column, 1, &shape, 1, &width, std::ssize(keys)}, &table, false, &to, pool.parallel_for));
  return out;
}

// The keys first, first + 1, ..
inline std::vector<int64_t> Keys(int64_t first, int64_t count) {
  std::vector<int64_t> keys(count);
  for (int64_t i = 0; i < count; ++i) keys[i] = first + i;
  return keys;
}

// A store in which a read of a key takes until it is let go.
class HeldStore final : public MapStore {
 public:
  struct Hold {
    std::mutex mutex;
    std::condition_variable changed;
    int64_t key = 0;
    bool reached = false, let_go = false;
  };

  HeldStore(int64_t row_bytes, Hold* hold) : MapStore(row_bytes, nullptr, nullptr), hold_(hold) {}

  Status Get(const int64_t* keys, int64_t count, void* rows, uint8_t* found, const ParallelFor& parallel_for) override {
    if (std::find(keys, keys + count, hold_->key) != keys + count) {
      std::unique_lock lock(hold_->mutex);
      hold_->reached = true;
      hold_->changed.notify_all();
      hold_->changed.wait(lock, [&] { return hold_->let_go; });
    }
    return MapStore::Get(keys, count, rows, found, parallel_for);
  }

 private:
  Hold* hold_;
};

// A lookup does not wait for an update that waits for the disk, whether its keys have rows in memory, below, or none.
inline void Waiting(uint64_t seed) {
  constexpr int64_t kMemoryRows = 100;
  TableOptions options;
  options.dim = 3;
  HeldStore::Hold hold;
  hold.key = -static_cast<int64_t>(seed);
  std::unique_ptr<Table> table;
  Must(Table::Make(options, &table));
  Must(table->SetTier({[&](int64_t row_bytes, std::unique_ptr<SegmentStore>* store) {
                         *store = std::make_unique<HeldStore>(row_bytes, &hold);
                         return Status();
                       },
                       kMemoryRows, Cache::kLru}));
  for (int64_t step = 1; step <= 6; ++step) Must(Step(table.get(), Keys(50 * step, 50), step, pools[0]));
  std::thread update([&] { Must(Step(table.get(), {hold.key}, 7, pools[0])); });
  {
    std::unique_lock lock(hold.mutex);
    hold.changed.wait(lock, [&] { return hold.reached; });
  }
  auto lookup = std::async(std::launch::async, [&] { return Read(table.get(), Keys(0, 700), pools[0]); });
  if (lookup.wait_for(std::chrono::seconds(60)) != std::future_status::ready) Wrong("a lookup waits for an update", 0);
  const Floats out = lookup.get();
  for (int64_t i = 0; i < std::ssize(out); ++i) {
    const int64_t key = i / table->dim();
    if (out[i] != (50 <= key && key < 350 ? -1 : 0)) Wrong("another row looked up", key);
  }
  {
    std::lock_guard lock(hold.mutex);
    hold.let_go = true;
    hold.changed.notify_all();
  }
  update.join();
  if (Read(table.get(), {hold.key}, pools[0])[0] != -1) Wrong("an update that was lost", hold.key);
  const TableStats stats = table->Stats();
  if (stats.hits + stats.hits_below + stats.misses != 701) Wrong("lookups that do not add up", stats.hits);
  if (stats.misses != 400 || stats.hits_below < 200) Wrong("another number of misses", stats.misses);
}

// All that a table holds, in an order of its own.
inline auto Held(Table* table) {
  Saved saved;
  Must(table->Export(Extent::kAll, {}, saved.Room(table->dim(), 0), pools[0].parallel_for));
  std::map<int64_t, std::tuple<int64_t, int64_t, float>> held;
  for (size_t i = 0; i < saved.keys.size(); ++i) {
    held[saved.keys[i]] = {saved.frequencies[i], saved.steps[i], saved.values[i * table->dim()]};
  }
  for (size_t i = 0; i < saved.candidate_keys.size(); ++i) {
    held[saved.candidate_keys[i]] = {-saved.candidate_counts[i], saved.candidate_steps[i], 0};
  }
  const TableStats stats = table->Stats();
  if (stats.rows + stats.candidates != std::ssize(held)) Wrong("other statistics", stats.rows);
  return held;
}

// Whichever allocation of a call fails, all is as it was before; and the call does its work when there is memory.
inline void Allocations(uint64_t seed, int64_t memory_rows) {
  constexpr int64_t kDim = 2;
  rng.seed(seed);
  for (const ImportKind kind : {ImportKind::kAll, ImportKind::kMore, ImportKind::kChanges}) {
    std::unique_ptr<Table> tables[2];
    for (auto& table : tables) {
      TableOptions options;
      options.dim = kDim;
      options.admission = {AdmissionKind::kCounter, 2, 0, 0};
      Must(Table::Make(options, &table));
      if (memory_rows) Must(table->SetTier(TierOf(memory_rows, Cache::kLfu)));
      for (int64_t step = 1; step <= 3; ++step) Must(Step(table.get(), Keys(100 * step, 200), step, pools[0]));
      Must(table->EvictSteps(4, 2, pools[0].parallel_for, nullptr));
    }
    Saved in;
    StateOut out;
    Must(in.Room(kDim, 0)({150, 150, 0, kind == ImportKind::kChanges ? 150 : 0}, &out));
    for (int64_t i = 0; i < 150; ++i) {
      const int64_t key = 250 + 2 * i;  // rows become candidates, candidates rows, others go
      in.keys[i] = key, in.frequencies[i] = 7, in.steps[i] = 9, in.values[i * kDim] = static_cast<float>(key);
      in.candidate_keys[i] = key + 1, in.candidate_counts[i] = 1, in.candidate_steps[i] = 8;
      if (!in.removed.empty()) in.removed[i] = 150 + i;
    }
    const std::vector<int64_t> keys = Keys(180, 150 + Uniform(0, 20)), counts(keys.size(), 1);
    const Floats gradient(keys.size() * kDim, 1.0f);
    const MergedBatch batch{keys.data(), counts.data(), gradient.data(), std::ssize(keys)};
    StepRule rule{};
    rule.kind = kSgd, rule.learning_rate = 1, rule.step = 10;
    const auto call = [&](Table* table, int what) {
      if (what == 0) return table->Import(kind, {}, in.Sizes(), 0, in.In(), pools[0].parallel_for);
      return table->Update(batch, rule, pools[0].parallel_for);
    };
    for (const int what : {0, 1}) {
      Must(call(tables[1].get(), what));
      const auto before = Held(tables[0].get());
      for (int64_t n = 1;; ++n) {
        fail_in = n;
        const Status status = call(tables[0].get(), what);
        if (fail_in > 0) Must(status);
        fail_in = 0;
        if (status.ok()) break;
        if (Held(tables[0].get()) != before) Wrong("a call without memory that changed something", n);
      }
      if (Held(tables[0].get()) != Held(tables[1].get())) Wrong("another state after calls without memory", what);
    }
  }
}

}  // namespace ctrlab::check::engine
