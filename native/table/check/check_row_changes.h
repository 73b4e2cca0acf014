// Checks the log of a dense table's rows while several threads change rows, also without memory to log a change.

#pragma once

#include "check_engine_faults.h"
#include "table/row_changes.h"

namespace ctrlab::check::engine {

// Threads increase rows and mark them. Consumers copy the rows in their cuts, confirm them or not, and must end with the final
// rows.
inline void RowsChange(uint64_t seed) {
  constexpr int64_t kRows = 3000, kSteps = 4000;
  ctrlab::embedding::RowChanges changes(kRows);
  std::vector<std::atomic<int64_t>> rows(kRows);
  std::atomic<int> changing = 2, waiting = 2, anew = 0;
  const auto change = [&](uint64_t own) {
    std::mt19937_64 random(own);
    while (waiting > 0) std::this_thread::yield();
    for (int64_t step = 0; step < kSteps; ++step) {
      std::vector<int64_t> ids(random() % 8);
      for (int64_t& id : ids) id = static_cast<int64_t>(random() % kRows);
      for (const int64_t id : ids) ++rows[id];
      std::this_thread::yield();
      may_fail = step % 500 == 250;
      if (may_fail) fail_in = 1;
      changes.Mark(ids.data(), std::ssize(ids));
      may_fail = false;
    }
    --changing;
  };
  const auto consume = [&](const std::string& name) {
    std::mt19937_64 random(seed);
    std::vector<int64_t> copy(kRows, 0);
    int64_t version = 0;
    Must(changes.CaughtUp(name, &version));
    --waiting;
    for (bool last = false; !last;) {
      last = changing == 0;
      const auto cut = changes.CutFor(name);
      if (cut.version <= version) Wrong("a version that does not rise", cut.version);
      version = cut.version;
      anew += cut.since < 0;
      if (!last && random() % 4 == 0) continue;  // this cut is lost
      for (const int64_t id : cut.ids) copy[id] = rows[id];
      for (int64_t id = 0; cut.since < 0 && id < kRows; ++id) copy[id] = rows[id];
      if (random() % 2) (void)changes.Confirm(name, version);  // refused if the log was reset meanwhile
    }
    for (int64_t id = 0; id < kRows; ++id) {
      if (copy[id] != rows[id]) Wrong("a change that was not told", id);
    }
  };
  std::thread a(change, 2 * seed), b(change, 2 * seed + 1), c(consume, "c"), d(consume, "d");
  a.join(), b.join(), c.join(), d.join();
  if (anew == 0) Wrong("changes that were noted without memory", 0);
}

}  // namespace ctrlab::check::engine
