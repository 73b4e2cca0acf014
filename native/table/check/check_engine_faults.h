// Checks what other calls can do while a table's writer is active.

#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <set>
#include <tuple>

#include "check_engine_cases.h"
#include "table/lookup.h"
#include "table/sorted.h"

namespace ctrlab::check::engine {

// In failing_new.cc.
extern std::atomic<int64_t> fail_in;  // number of allocations until one fails; 0: none fails
extern thread_local bool may_fail;    // whether this thread's allocations count

// One step of SGD on these keys, which subtracts 1 from each row.
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

// A store in which reads of one key, or all writes, block until they are released; it may be full.
class HeldStore final : public MapStore {
 public:
  struct Hold {
    std::mutex mutex;
    std::condition_variable changed;
    int64_t key = std::numeric_limits<int64_t>::min();
    bool reached = false, let_go = false;
    std::atomic<bool> full = false, every_put = false, snapshots = false, no_answer = false;
    std::atomic<bool> watched = false;  // whether each call of Relieve does this first
    std::function<void()> at_relieve;

    void Reached() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return reached; });
    }
    void LetGo() {
      std::lock_guard lock(mutex);
      let_go = true;
      changed.notify_all();
    }
    void Again() {
      std::lock_guard lock(mutex);
      reached = let_go = false;
    }
    void Wait() {
      std::unique_lock lock(mutex);
      reached = true;
      changed.notify_all();
      changed.wait(lock, [&] { return let_go; });
    }
  };

  HeldStore(int64_t row_bytes, Hold* hold) : MapStore(row_bytes, nullptr, nullptr), hold_(hold) {}

  Status Get(const int64_t* keys, int64_t count, void* rows, uint8_t* found, const ParallelFor& parallel_for) override {
    if (std::find(keys, keys + count, hold_->key) != keys + count) hold_->Wait();
    return MapStore::Get(keys, count, rows, found, parallel_for);
  }
  Status Put(const int64_t* keys, const void* rows, int64_t count) override {
    if (hold_->every_put) hold_->Wait();
    if (!hold_->full) return MapStore::Put(keys, rows, count);
    Must(MapStore::Put(keys, rows, count / 2));
    return Status("the disk is full");
  }
  Status Find(const int64_t* keys, int64_t count, uint8_t* found) override {
    return hold_->no_answer ? Status("the store does not answer") : MapStore::Find(keys, count, found);
  }
  Status Erase(const int64_t* keys, int64_t count) override {
    if (!hold_->full) return MapStore::Erase(keys, count);
    Must(MapStore::Erase(keys, count / 2));
    return Status("the disk is full");
  }

  Status Relieve() override {
    if (hold_->watched) hold_->at_relieve();
    return MapStore::Relieve();
  }
  Status Snapshot(std::unique_ptr<StoreSnapshot>* snapshot, const std::function<bool(int64_t)>& wanted) override {
    if (hold_->snapshots) hold_->Wait();
    if (hold_->no_answer) return Status("the store does not answer");
    return MapStore::Snapshot(snapshot, wanted);
  }

  static TierOptions TierOf(int64_t memory_rows, Hold* hold) {
    return {[=](int64_t row_bytes, std::unique_ptr<SegmentStore>* store) {
              *store = std::make_unique<HeldStore>(row_bytes, hold);
              return Status();
            },
            memory_rows, Cache::kLru};
  }

 private:
  Hold* hold_;
};

// The result of a call, which must return within a minute.
template <class Call>
auto Soon(const std::string& what, const Call& call) {
  auto answer = std::async(std::launch::async, call);
  if (answer.wait_for(std::chrono::seconds(60)) != std::future_status::ready) Wrong(what, 0);
  return answer.get();
}

template <class True>
void Until(const std::string& what, const True& is_true) {
  for (int times = 0; !is_true(); ++times) {
    if (times == 6000) Wrong(what, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// A lookup does not wait for an update that waits for the disk, whether its keys have rows in memory, below, or none.
inline void Waiting(uint64_t seed) {
  constexpr int64_t kMemoryRows = 100;
  TableOptions options;
  options.dim = 3;
  HeldStore::Hold hold;
  hold.key = -static_cast<int64_t>(seed);
  std::unique_ptr<Table> table;
  Must(Table::Make(options, &table));
  Must(table->SetTier(HeldStore::TierOf(kMemoryRows, &hold)));
  for (int64_t step = 1; step <= 6; ++step) Must(Step(table.get(), Keys(50 * step, 50), step, pools[0]));
  std::thread update([&] { Must(Step(table.get(), {hold.key}, 7, pools[0])); });
  hold.Reached();
  const Floats out = Soon("a lookup that waits for an update", [&] { return Read(table.get(), Keys(0, 700), pools[0]); });
  for (int64_t i = 0; i < std::ssize(out); ++i) {
    const int64_t key = i / table->dim();
    if (out[i] != (50 <= key && key < 350 ? -1 : 0)) Wrong("another row looked up", key);
  }
  hold.LetGo();
  update.join();
  if (Read(table.get(), {hold.key}, pools[0])[0] != -1) Wrong("an update that was lost", hold.key);
  const TableStats stats = table->Stats();
  if (stats.hits + stats.hits_below + stats.misses != 701) Wrong("lookups that do not add up", stats.hits);
  if (stats.misses != 400 || stats.hits_below < 200) Wrong("another number of misses", stats.misses);
}

// A lookup that reads from below while the table adopts other content must not put any old row into it.
inline void Adopted(uint64_t seed) {
  TableOptions options;
  options.dim = 3;
  HeldStore::Hold hold;
  std::unique_ptr<Table> table, stage;
  Must(Table::Make(options, &table));
  Must(table->SetTier(HeldStore::TierOf(100, &hold)));
  for (int64_t step = 1; step <= 6; ++step) Must(Step(table.get(), Keys(50 * step, 50), step, pools[0]));
  Must(table->Stage(&stage));
  hold.key = 50 + static_cast<int64_t>(seed % 50);
  std::thread slow([&] { Read(table.get(), {hold.key}, pools[0]); });
  hold.Reached();
  Must(table->Adopt(stage.get()));
  hold.LetGo();
  slow.join();
  if (const TableStats stats = table->Stats(); stats.rows != 0) Wrong("rows of what was replaced", stats.rows);
  if (Read(table.get(), {hold.key}, pools[0])[0] != 0) Wrong("a row of what was replaced", hold.key);
}

// Rows move down in the background. A full disk keeps them in memory until there is no room. A table closes while rows move down.
inline void Demotion(uint64_t seed) {
  constexpr int64_t kMemoryRows = 160, kSpare = 20;
  TableOptions options;
  options.dim = 3;
  HeldStore::Hold hold;
  std::unique_ptr<Table> table;
  Must(Table::Make(options, &table));
  Must(table->SetTier(HeldStore::TierOf(kMemoryRows, &hold)));
  const int64_t first = static_cast<int64_t>(seed) * 1000;
  int64_t last = first, step = 0;
  const auto add = [&](int64_t count) {
    const Status status = Step(table.get(), Keys(last, count), ++step, pools[0]);
    if (status.ok()) last += count;
    return status;
  };
  const auto in_memory = [&] {
    const TableStats stats = table->Stats();
    return stats.rows - stats.rows_below;
  };
  const auto check = [&] {
    const Floats rows = Read(table.get(), Keys(first, last - first), pools[0]);
    if (std::count(rows.begin(), rows.end(), -1.0f) != std::ssize(rows)) Wrong("a row that is lost", last);
  };
  while (in_memory() + kSpare / 2 <= kMemoryRows) Must(add(1));
  check();
  Until("rows that do not sink in the background", [&] { return in_memory() == kMemoryRows - kSpare; });
  hold.full = true;
  Must(add(15));
  Until("a problem that is not told", [&] { return table->Stats().problem == "the disk is full"; });
  check();
  while (in_memory() < kMemoryRows) Must(add(1));
  if (add(1).problem() != "the disk is full") Wrong("an update that finds no room", last);
  check();
  hold.full = false;
  Must(add(1));
  check();
  while (in_memory() + kSpare / 2 <= kMemoryRows) Must(add(1));
  Until("a problem that stays", [&] { return table->Stats().problem.empty(); });
  Until("rows that do not sink again", [&] { return in_memory() == kMemoryRows - kSpare; });
  if (table->Stats().rows != last - first) Wrong("another number of rows", table->Stats().rows);
  // Prefetched rows stay, although they were unused for longest, until two more prefetches have come; others make room.
  const std::vector<int64_t> fetched = Keys(first, kMemoryRows - 3);
  const int64_t none = first - 1;
  const auto stays = [&] {
    std::vector<int64_t> below;
    Must(table->KeysBelow(&below));
    for (const int64_t key : below) {
      if (key < first + std::ssize(fetched)) Wrong("a row that was fetched and sank again", key);
    }
  };
  Must(table->Prefetch(fetched.data(), std::ssize(fetched), pools[0].parallel_for));
  Until("rows that don't make room for what was fetched", [&] { return in_memory() == std::ssize(fetched); });
  stays();
  Must(table->Prefetch(&none, 1, pools[0].parallel_for));
  for (int i = 0; i < 5; ++i) Must(add(1));  // three fill the memory, and move down for the others
  stays();
  Must(table->Prefetch(&none, 1, pools[0].parallel_for));
  Must(add(1));
  Until("rows that do not sink after two more fetches", [&] { return in_memory() + kSpare / 2 <= kMemoryRows; });
  while (in_memory() > kMemoryRows - kSpare && in_memory() + kSpare / 2 <= kMemoryRows) Must(add(1));
  Until("rows that do not sink", [&] { return in_memory() == kMemoryRows - kSpare; });
  // A prefetch comes when the thread has selected rows and has not moved them yet: what is prefetched stays.
  std::vector<int64_t> wanted;
  std::atomic<bool> came = false;
  const auto below = [&] {
    std::vector<int64_t> keys;
    Must(table->KeysBelow(&keys));
    return std::set<int64_t>(keys.begin(), keys.end());
  };
  int relieves = 0;
  hold.at_relieve = [&] {
    // Relieve is called first for the dead records, then for the rows that move down.
    if (in_memory() == kMemoryRows - kSpare || ++relieves != 2) return;
    const std::set<int64_t> under = below();
    for (int64_t key = first; key < last; ++key) {
      if (!under.contains(key)) wanted.push_back(key);
    }
    Must(table->Prefetch(wanted.data(), std::ssize(wanted), pools[0].parallel_for));
    came = true;
  };
  hold.watched = true;
  last += kSpare / 2 + 1;
  Must(Step(table.get(), Keys(last - kSpare / 2 - 1, kSpare / 2 + 1), ++step, pools[0]));
  Until("rows that are not selected", [&] { return came.load(); });
  for (int times = 0; times < 20; ++times) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::set<int64_t> under = below();
    for (const int64_t key : wanted) {
      if (under.contains(key)) Wrong("a row that sank after it was fetched", key);
    }
  }
  hold.watched = false;
  for (int times = 0; times < 2; ++times) Must(table->Prefetch(&none, 1, pools[0].parallel_for));
  Must(add(1));
  while (in_memory() > kMemoryRows - kSpare && in_memory() + kSpare / 2 <= kMemoryRows) Must(add(1));
  Until("rows that do not sink any more", [&] { return in_memory() == kMemoryRows - kSpare; });
  // The thread is processing a piece: lookups go on, and closing waits for it.
  hold.every_put = true;
  Must(add(kSpare / 2 + 1));
  hold.Reached();
  Soon("a lookup that waits for demotion", [&] { return check(), true; });
  std::thread close([&] { table.reset(); });
  hold.LetGo();
  close.join();
}

// The whole content of a table, in a canonical order.
inline auto Held(Table* table) {
  Saved saved;
  Must(table->Export({}, saved.Room(table->dim(), 0), pools[0].parallel_for));
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

}  // namespace ctrlab::check::engine
