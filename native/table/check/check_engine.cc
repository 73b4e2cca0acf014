// Checks the engine of embedding variables against a twin based on std::map, and with several threads:
//
//   check_engine twin <seed>      random calls of all kinds on random and adversarial keys; both must always hold the same
//   check_engine threads <seed>   lookups during a writer that inserts, grows, exports, evicts and imports; no lookup sees half a
//                                 row, or a row before its first step
//   check_engine tiers <seed>     the same on a table with a tier below
//   check_engine memory <seed>    lookups of more keys than fit in the memory above a tier, each read once
//   check_engine closing <seed>   prefetches while the tier opens and closes
//   check_engine waiting <seed>   lookups while an update waits for the disk
//   check_engine adopted <seed>   a lookup that reads from below while the table adopts a stage
//   check_engine demotion <seed>  rows that move down in the background, a full disk, a table that closes meanwhile
//   check_engine allocations <seed>  calls in which any single allocation fails, without and with a tier
//   check_engine together <seed>  a step on two tables, one of which has a full disk
//   check_engine unadmitted <seed>  ids that are counted but push no row out of memory
//   check_engine disk <seed>      lookups while the disk does not answer
//   check_engine little <seed>    the memory that a lookup allocates
//   check_engine log <seed>       the bound of the change log, and which consumers are forgotten
//   check_engine imports <seed>   imports that add to the content, or without memory
//   check_engine bytes <seed>     the memory that a table reports
//   check_engine changes <seed>   the log of a dense table's rows, while several threads change rows, some without memory
//   check_engine bloom <seed>     the fraction of keys that never came but have a count, compared with the requested rate
//
// "passed" and exit code 0, or what is wrong and 1.

#include <atomic>
#include <cstring>

#include "check_engine_faults.h"
#include "check_engine_log.h"
#include "check_engine_memory.h"
#include "check_engine_promises.h"
#include "check_engine_twin.h"
#include "check_row_changes.h"

namespace ctrlab::check::engine {

// Random calls on a table and its twin, and on copies of both that only receive changes, each at its own pace.
void Compare(uint64_t seed) {
  rng.seed(seed);
  for (int round = 0; round < 12; ++round) {
    const Case test = RandomCase(round);
    Pair pair(test), a(test), b(test);
    const auto update = [&] { pair.Update(pair.step() + 1); };
    for (int call = 0; call < 10; ++call) {
      if (call % 3 == 2) pair.EvictSteps(pair.step(), 1);
      else update();
    }
    pair.Same(pair);
    for (int call = 0; call < 60; ++call) {
      const int64_t what = Uniform(0, 24);
      if (what < 13) update();
      else if (what == 13) pair.EvictSteps(pair.step(), Uniform(1, 8));
      else if (what == 14) pair.EvictNorms(test.spread * std::sqrt(static_cast<double>(test.dim)));
      else if (what == 15) pair.Reshard(Uniform(1, 5));
      else if (what == 16) pair.Refuse();
      else if (what == 17) pair.Same(pair);
      else if (what == 18) pair.Reload();
      else if (what < 22) pair.BringUpToDate("a", &a);
      else pair.BringUpToDate("b", &b);
      pair.Lookup();
    }
    for (const auto& [name, copy] : {std::pair("a", &a), std::pair("b", &b)}) {
      while (!pair.UpToDate(name)) pair.BringUpToDate(name, copy);
      pair.Same(*copy);
    }
    pair.Same(pair);
  }
}

// At any moment all D numbers of a row are equal: a row begins at kBegin, which only training reads, and each step subtracts 1
// from all of them.
void Threads(uint64_t seed, int64_t memory_rows) {
  constexpr int64_t kDim = 20, kKeys = 3000;
  constexpr float kBegin = 7;
  TableOptions options;
  options.dim = kDim;
  options.initializer.a = kBegin;
  std::unique_ptr<Table> table;
  Must(Table::Make(options, &table));
  if (memory_rows) Must(table->SetTier(TierOf(memory_rows, Cache::kLru)));
  std::atomic<bool> done = false;
  auto read = [&](uint64_t own) {
    std::mt19937_64 random(own);
    std::vector<int64_t> keys(500);
    Floats out(keys.size() * kDim);
    while (!done) {
      for (int64_t& key : keys) key = static_cast<int64_t>(random() % (2 * kKeys)) - kKeys;
      const LookupColumn column{keys.data(), nullptr, 0, 0, 0, kRows};
      const LookupTable shape{0, kDim};
      const int64_t width = kDim;
      const LookupInput input{&column, 1, &shape, 1, &width, std::ssize(keys)};
      Table* tables = table.get();
      float* to = out.data();
      const bool training = own % 2 == 0;
      Must(ctrlab::embedding::Lookup(input, &tables, training, &to, pools[0].parallel_for));
      for (size_t i = 0; i < out.size(); ++i) {
        if (out[i] != out[i / kDim * kDim]) Wrong("a row that is half of one", keys[i / kDim]);
        if (out[i] > (training ? kBegin : kBegin - 1)) Wrong("a row before its first step", keys[i / kDim]);
      }
    }
  };
  std::thread a(read, 2 * seed), b(read, 2 * seed + 1);
  std::thread c([&] {
    while (!done) {
      Saved saved;
      std::unique_ptr<Cut> cut;
      Must(table->CutFor("a saver", pools[1].parallel_for, &cut));
      Must(cut->Next(10'000, saved.Room(kDim, 0)));
      Must(table->Confirm("a saver", cut->version()));
      for (size_t i = 0; i < saved.values.size(); ++i) {
        if (saved.values[i] != saved.values[i / kDim * kDim]) Wrong("a saved row that is half of one", saved.keys[i / kDim]);
      }
      if (const TableStats stats = table->Stats(); stats.bytes > stats.peak_bytes)
        Wrong("a peak below what is held", stats.bytes);
    }
  });
  rng.seed(seed);
  for (int64_t step = 1; step <= 150; ++step) {
    const int64_t span = std::min<int64_t>(kKeys, 20 * step);
    std::vector<int64_t> keys(std::min<int64_t>(span, 200));
    for (int64_t& key : keys) key = Uniform(-span, span);
    ctrlab::embedding::SortOnce(&keys);
    Must(Step(table.get(), keys, step, pools[step % 3]));
    if (step % 20 == 0) Must(table->EvictSteps(step, 10, pools[step % 3].parallel_for, nullptr));
    if (step % 50 == 0) {
      Saved saved;
      Must(table->Export({}, saved.Room(kDim, 0), pools[2].parallel_for));
      Must(table->Import(ImportKind::kAll, {}, saved.Sizes(), 0, saved.In(), pools[2].parallel_for));
    }
  }
  done = true;
  a.join(), b.join(), c.join();
}

void Memory(uint64_t seed) {
  constexpr int64_t kDim = 4, kKeys = 3000, kMemoryRows = 64;
  TableOptions options;
  options.dim = kDim;
  std::unique_ptr<Table> table;
  Must(Table::Make(options, &table));
  Reads reads;
  Must(table->SetTier(TierOf(kMemoryRows, static_cast<Cache>(seed % 2), nullptr, &reads)));
  for (int64_t step = 1; step <= kKeys / 50; ++step) {
    std::vector<int64_t> keys(50);
    for (int64_t i = 0; i < 50; ++i) keys[i] = (step - 1) * 50 + i;
    Must(Step(table.get(), keys, step, pools[0]));
  }
  rng.seed(seed);
  std::vector<int64_t> keys(2 * kKeys);  // half of them have no row
  for (int64_t i = 0; i < std::ssize(keys); ++i) keys[i] = i - kKeys;
  std::shuffle(keys.begin(), keys.end(), rng);
  const LookupColumn column{keys.data(), nullptr, 0, 0, 0, kRows};
  const LookupTable shape{0, kDim};
  const int64_t width = kDim;
  Floats out(keys.size() * kDim);
  float* to = out.data();
  Table* tables = table.get();
  const auto in_memory = [&] {
    const TableStats stats = table->Stats();
    return stats.rows - stats.rows_below;
  };
  const auto look_up = [&](const Pool& pool) {
    Must(ctrlab::embedding::Lookup({&column, 1, &shape, 1, &width, std::ssize(keys)}, &tables, false, &to, pool.parallel_for));
  };
  look_up(pools[0]);  // fills the room with rows, so that the table's thread must make exactly as much again
  for (const auto& pool : pools) {
    Until("rows that do not sink", [&] { return in_memory() <= kMemoryRows - kMemoryRows / 8; });
    reads.calls = reads.keys = 0;
    look_up(pool);
    for (size_t i = 0; i < out.size(); ++i) {
      if (out[i] != (keys[i / kDim] < 0 ? 0 : -1)) Wrong("another row looked up", keys[i / kDim]);
    }
    const int64_t absent = std::ssize(keys) - (kMemoryRows - kMemoryRows / 8);
    if (reads.keys != absent) Wrong("keys that are not in memory, each read once", reads.keys);
    if (reads.calls != (absent + 4095) / 4096) Wrong("reads of 4,096 keys", reads.calls);
    if (in_memory() > kMemoryRows) Wrong("more rows in memory than asked for", in_memory());
  }
}

// SetSlots closes an empty tier; the next update opens it again.
void Closing(uint64_t seed) {
  TableOptions options;
  options.dim = 4;
  std::unique_ptr<Table> table;
  Must(Table::Make(options, &table));
  Must(table->SetTier(TierOf(1000, Cache::kLru)));
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      const int64_t absent = -1 - t - static_cast<int64_t>(seed);
      while (!done) Must(table->Prefetch(&absent, 1, pools[0].parallel_for));
    });
  }
  const float initial[] = {0, 0};
  for (int64_t step = 1; step <= 2000; ++step) {
    Must(Step(table.get(), {step % 100}, step, pools[0]));
    Must(table->SetSlots(1, initial));
    Must(table->SetSlots(0, initial));
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

void Bloom(uint64_t seed) {
  rng.seed(seed);
  for (const double rate : {0.1, 0.01, 0.001}) {
    constexpr int64_t kKeys = 50'000;
    Admission admission;
    admission.threshold = 3, admission.expected_keys = kKeys, admission.false_positive_rate = rate;
    BloomFilter filter(admission);
    for (int64_t key = 0; key < kKeys; ++key) filter.Add(key * 7 - kKeys, 1 + key % 400);
    int64_t wrong = 0;
    for (int64_t key = 0; key < kKeys; ++key) {
      if (filter.Count(key * 7 - kKeys) < std::min<int64_t>(255, 1 + key % 400)) Wrong("a count that is too low", key);
    }
    const int64_t other = 20 / rate > 20'000 ? 200'000 : 50'000;
    for (int64_t k = 0; k < other; ++k) wrong += filter.Count(Uniform(int64_t{1} << 40, int64_t{1} << 60)) > 0;
    std::printf("%g %g\n", rate, static_cast<double>(wrong) / static_cast<double>(other));
  }
}

}  // namespace ctrlab::check::engine

int main(int argc, char** argv) {
  using namespace ctrlab::check::engine;
  if (argc != 3) return 2;
  const uint64_t seed = std::strtoull(argv[2], nullptr, 10);
  if (std::strcmp(argv[1], "twin") == 0) Compare(seed);
  else if (std::strcmp(argv[1], "threads") == 0) Threads(seed, 0);
  else if (std::strcmp(argv[1], "tiers") == 0) Threads(seed, 400);
  else if (std::strcmp(argv[1], "memory") == 0) Memory(seed);
  else if (std::strcmp(argv[1], "closing") == 0) Closing(seed);
  else if (std::strcmp(argv[1], "waiting") == 0) Waiting(seed);
  else if (std::strcmp(argv[1], "adopted") == 0) Adopted(seed);
  else if (std::strcmp(argv[1], "demotion") == 0) Demotion(seed);
  else if (std::strcmp(argv[1], "allocations") == 0)
    for (const auto& pool : {ctrlab::check::pools[1], failing_pool}) Allocations(seed, 0, pool), Allocations(seed, 50, pool);
  else if (std::strcmp(argv[1], "together") == 0) Together(seed);
  else if (std::strcmp(argv[1], "unadmitted") == 0) Unadmitted(seed);
  else if (std::strcmp(argv[1], "disk") == 0) Disk(seed);
  else if (std::strcmp(argv[1], "little") == 0) Little(seed);
  else if (std::strcmp(argv[1], "log") == 0) Log(seed), LogEvicted(seed), LogForgotten(seed);
  else if (std::strcmp(argv[1], "imports") == 0) Imports(seed);
  else if (std::strcmp(argv[1], "bytes") == 0) Bytes(seed);
  else if (std::strcmp(argv[1], "changes") == 0) RowsChange(seed);
  else if (std::strcmp(argv[1], "bloom") == 0) Bloom(seed);
  else return 2;
  std::printf("passed\n");
}
