// Checks the change log: its bound, which consumers are forgotten, and imports meanwhile.

#pragma once

#include <numeric>

#include "check_engine_promises.h"

namespace ctrlab::check::engine {

// The log holds at most the documented number of keys; a consumer that falls behind is given everything.
inline void Log(uint64_t seed) {
  constexpr int64_t kBound = 65'536, kBatch = 4096;
  const TierOptions tier = TierOf(3000, Cache::kLfu);
  const auto table = NewTable(1, {}, seed % 2 ? &tier : nullptr);
  std::unique_ptr<Cut> cut;
  Must(table->CutFor("slow", pools[0].parallel_for, &cut));
  Must(table->Confirm("slow", cut->version()));
  int64_t version = cut->version();
  const auto quick = [&](bool everything) {
    Must(table->CutFor("quick", pools[0].parallel_for, &cut));
    if ((cut->since() < 0) != everything) Wrong("a consumer that is not given what it should be", cut->since());
    if (cut->version() <= version) Wrong("a version that did not rise", cut->version());
    version = cut->version();
    Must(table->Confirm("quick", version));
  };
  quick(true);
  for (int64_t step = 1; step <= 40; ++step) {
    Must(Step(table.get(), Keys(step % 24 * kBatch / 2, kBatch), step, pools[0]));
    if (table->Stats().logged > std::max(kBound, table->Stats().rows)) Wrong("a log beyond its bound", table->Stats().logged);
    if (step % 8 == 0) quick(false);
  }
  Must(table->CutFor("slow", pools[0].parallel_for, &cut));
  if (cut->since() >= 0) Wrong("changes for one who fell behind", cut->since());
  table->Forget("slow");
  table->Forget("quick");
  if (table->Stats().logged != 0) Wrong("a log for nobody", table->Stats().logged);
}

// An eviction with more keys than the log may hold, while a reader holds on to it: the rest is logged as before.
inline void LogEvicted(uint64_t) {
  constexpr int64_t kRows = 30'000;
  const auto table = NewTable(1, {}, nullptr);
  const std::vector<int64_t> stays = Keys(kRows, kRows);
  int64_t version;
  Must(table->CaughtUp("x", &version));
  Must(Step(table.get(), Keys(0, kRows), 1, pools[0]));
  Must(Step(table.get(), stays, 100, pools[0]));
  Must(table->EvictSteps(100, 50, pools[0].parallel_for, nullptr));
  std::unique_ptr<Cut> cut;
  Must(table->CutFor("x", pools[0].parallel_for, &cut));
  if (cut->since() >= 0) Wrong("a log beyond its bound", cut->since());
  Must(table->Confirm("x", cut->version()));
  Must(Step(table.get(), stays, 101, pools[0]));
  Must(table->CutFor("x", pools[0].parallel_for, &cut));
  if (cut->sizes().rows != kRows) Wrong("changes in a cut", cut->sizes().rows);
}

// A consumer that was forgotten, and whose next cut the disk refuses, can't confirm its cut from before.
inline void LogForgotten(uint64_t seed) {
  HeldStore::Hold hold;
  const TierOptions tier = HeldStore::TierOf(10, &hold);
  const auto table = NewTable(1, {}, &tier);
  for (int64_t step = 1; step <= 4; ++step) Must(Step(table.get(), Keys(10 * step, 10), step, pools[0]));
  std::unique_ptr<Cut> cut;
  Must(table->CutFor("x", pools[0].parallel_for, &cut));
  const int64_t given = cut->version();
  Must(Step(table.get(), Keys(10, 10), 5, pools[0]));
  if (seed % 2) table->Forget("x");
  else Must(Step(table.get(), Keys(1000, 70'000), 6, pools[0]));  // more changes than the log holds
  hold.no_answer = true;
  if (table->CutFor("x", pools[0].parallel_for, &cut).ok()) Wrong("a cut of what could not be read", 0);
  hold.no_answer = false;
  if (table->Confirm("x", given).ok()) Wrong("a cut that was confirmed by one who was forgotten", given);
  Must(table->CutFor("x", pools[0].parallel_for, &cut));
  if (cut->since() >= 0) Wrong("changes for one who was forgotten", cut->since());
}

// An import that adds to the content removes no key, in memory or below. It is refused above a store that does not answer, as in
// a forked child. Slots are imported or initialised like rows.
inline void Imports(uint64_t) {
  HeldStore::Hold hold;
  const TierOptions tier = HeldStore::TierOf(10, &hold);
  const auto table = NewTable(1, {}, &tier);
  for (int64_t step = 1; step <= 10; ++step) Must(Step(table.get(), Keys(10 * step, 10), step, pools[0]));
  Saved none;
  none.removed = Keys(0, 200);
  Must(table->Import(ImportKind::kMore, {}, none.Sizes(), 0, none.In(), pools[0].parallel_for));
  if (const int64_t rows = table->Stats().rows; rows != 100) Wrong("rows that went", rows);
  Saved all;
  Must(table->Export({}, all.Room(1, 0), pools[0].parallel_for));
  hold.no_answer = true;
  const float initial[] = {0, 0};
  if (table->Import(ImportKind::kMore, {}, all.Sizes(), 0, all.In(), pools[0].parallel_for).ok())
    Wrong("rows that came twice", 0);
  if (table->SetSlots(2, initial).ok()) Wrong("slots of rows that can't be asked for", 0);
  hold.no_answer = false;
  if (const int64_t rows = table->Stats().rows; rows != 100) Wrong("rows after what was refused", rows);

  Saved saved;
  StateOut out;
  Must(saved.Room(1, 2)({50, 0, 0, 0}, &out));
  std::iota(saved.keys.begin(), saved.keys.end(), 0);
  for (int64_t n = 1;; ++n) {
    const auto empty = NewTable(1, {}, &tier);
    may_fail = true, fail_in = n;
    const Status status = empty->Import(ImportKind::kMore, {}, saved.Sizes(), 2, saved.In(), pools[0].parallel_for);
    may_fail = false, fail_in = 0;
    if (status.ok() != (empty->slots() == 2)) Wrong("slots of an import that was refused", n);
    if (status.ok()) break;
    Must(Step(empty.get(), {1}, 1, pools[0]));
  }
}

}  // namespace ctrlab::check::engine
