// Checks the engine's guarantees: either all tables take a step or none, ids push no row out of memory before they are admitted,
// and lookups in memory wait for no disk.

#pragma once

#include "check_engine_faults.h"

namespace ctrlab::check::engine {

inline std::unique_ptr<Table> NewTable(int64_t dim, Admission admission, const TierOptions* tier) {
  TableOptions options;
  options.dim = dim, options.admission = admission;
  std::unique_ptr<Table> table;
  Must(Table::Make(options, &table));
  if (tier) Must(table->SetTier(*tier));
  return table;
}

// Two tables, the second above a full disk. In both orders, either both take a step or none does, filters included.
inline void Together(uint64_t seed) {
  constexpr int64_t kMemoryRows = 60, kDim = 3;
  rng.seed(seed);
  for (int round = 0; round < 12; ++round) {
    HeldStore::Hold hold;
    const TierOptions tier = HeldStore::TierOf(kMemoryRows, &hold);
    const Admission admissions[] = {{}, {AdmissionKind::kCounter, 2, 0, 0}, {AdmissionKind::kBloom, 2, 1000, 0.01}};
    const auto first = NewTable(kDim, admissions[round % 3], nullptr), second = NewTable(kDim, {}, &tier);
    int64_t step = 0;
    const auto both = [&](const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
      const std::vector<int64_t> counts(std::max(a.size(), b.size()), 1);
      const Floats gradient(counts.size() * kDim, 1.0f);
      TableStep steps[] = {{first.get(), {a.data(), counts.data(), gradient.data(), std::ssize(a)}},
                           {second.get(), {b.data(), counts.data(), gradient.data(), std::ssize(b)}}};
      if (round % 2) std::swap(steps[0], steps[1]);
      StepRule rule{};
      rule.kind = kSgd, rule.learning_rate = 1, rule.step = static_cast<double>(step + 1);
      int64_t which = -1;
      const Status status = ctrlab::embedding::Update(steps, rule, pools[round % 3].parallel_for, &which);
      if (status.ok()) ++step;
      else if (steps[which].table != second.get()) Wrong("the wrong table refused", which);
      return status;
    };
    for (int k = 0; k < 5; ++k) Must(both(Keys(10 * k, 15), Keys(50 * k, 50)));
    hold.full = true;
    const auto filter = [&] {
      Saved saved;
      Must(first->Export({}, saved.Room(kDim, 0), pools[0].parallel_for));
      return saved.filter;
    };
    int64_t refused = 0;
    for (int k = 0; k < 20; ++k) {
      const auto was_first = Held(first.get()), was_second = Held(second.get());
      const auto was_filter = filter();
      if (both(Keys(Uniform(0, 80), 15), Keys(1000 + 50 * k, 50)).ok()) continue;
      ++refused;
      if (Held(first.get()) != was_first || Held(second.get()) != was_second || filter() != was_filter)
        Wrong("a step half applied", k);
    }
    if (refused == 0) Wrong("a full disk that refused nothing", refused);
    hold.full = false;
    const auto before = Held(first.get());
    Must(both(Keys(0, 15), Keys(5000, 50)));
    if (Held(first.get()) == before) Wrong("a step that came to nothing", step);
  }
}

// Ids that are not admitted push no row out of memory.
inline void Unadmitted(uint64_t seed) {
  constexpr int64_t kMemoryRows = 1000, kHot = 800;
  for (const Admission admission :
       {Admission{AdmissionKind::kCounter, 3, 0, 0}, Admission{AdmissionKind::kBloom, 3, 20'000, 0.001}}) {
    const TierOptions tier = TierOf(kMemoryRows, static_cast<Cache>(seed % 2));
    const auto table = NewTable(2, admission, &tier);
    int64_t step = 0;
    for (int k = 0; k < 3; ++k) Must(Step(table.get(), Keys(0, kHot), ++step, pools[0]));
    if (table->Stats().rows != kHot) Wrong("hot ids without rows", table->Stats().rows);
    for (int64_t k = 0; k < 10; ++k) Must(Step(table.get(), Keys(10'000 + 950 * k, 950), ++step, pools[0]));
    const TableStats stats = table->Stats();
    if (stats.rows_below > 0) Wrong("rows that ids without a row pushed out", stats.rows_below);
  }
}

// Lookups of keys in memory go on, whatever waits for the disk: a lookup that reads from below with a writer behind it, an
// eviction, a store that opens, a compaction in Relieve.
inline void Disk(uint64_t seed) {
  constexpr int64_t kMemoryRows = 100;
  HeldStore::Hold hold, opening;
  TierOptions tier = HeldStore::TierOf(kMemoryRows, &hold);
  const OpenStore open = tier.open;
  tier.open = [&, open](int64_t row_bytes, std::unique_ptr<SegmentStore>* store) {
    if (opening.every_put) opening.Wait();
    return open(row_bytes, store);
  };
  const auto table = NewTable(3, {}, &tier);
  const auto in_memory = [&](const char* what, const std::vector<int64_t>& keys, float value) {
    Soon(what, [&] {
      const Floats rows = Read(table.get(), keys, pools[seed % 3]);
      for (const float x : rows) {
        if (x != value) Wrong("another row looked up", keys[0]);
      }
      return true;
    });
  };
  opening.every_put = true;
  std::thread first([&] { Must(Step(table.get(), Keys(0, 50), 1, pools[0])); });
  opening.Reached();
  in_memory("a lookup that waits for a store to open", Keys(0, 50), 0);
  opening.LetGo();
  first.join();
  for (int64_t step = 2; step <= 6; ++step) Must(Step(table.get(), Keys(50 * (step - 1), 50), step, pools[0]));
  // A lookup reads key 7 from below, a step waits for it, and the keys of the last step are in memory.
  hold.key = 7;
  std::thread slow([&] { Read(table.get(), {7}, pools[0]); });
  hold.Reached();
  Must(Soon("a step that waits for a lookup's read", [&] { return Step(table.get(), Keys(250, 50), 7, pools[0]); }));
  in_memory("a lookup that waits for another one's read", Keys(250, 50), -2);
  hold.LetGo();
  slow.join();
  // An eviction reads everything below.
  hold.Again(), hold.snapshots = true;
  std::thread evict([&] { Must(table->EvictSteps(7, 1000, pools[0].parallel_for, nullptr)); });
  hold.Reached();
  in_memory("a lookup that waits for an eviction", Keys(250, 50), -2);
  hold.LetGo();
  evict.join();
  hold.snapshots = false;
  // Evicted rows are gone at once, whatever the disk does, and stay gone.
  hold.full = true;
  int64_t removed = 0;
  Must(table->EvictSteps(7, 2, pools[0].parallel_for, &removed));
  if (removed != 200) Wrong("another number of rows evicted", removed);
  const auto gone = [&] {
    const Floats rows = Read(table.get(), Keys(0, 200), pools[0]);
    if (std::count(rows.begin(), rows.end(), 0.0f) != std::ssize(rows)) Wrong("a row that was evicted", 0);
    const TableStats stats = table->Stats();
    if (stats.rows != 100) Wrong("another number of rows left", stats.rows);
  };
  gone();
  hold.full = false;
  Must(Step(table.get(), Keys(250, 50), 8, pools[0]));
  Must(table->EvictSteps(8, 5000, pools[0].parallel_for, nullptr));
  gone();
}

}  // namespace ctrlab::check::engine
