// Checks of memory: calls for which it runs out, how much a call allocates, and how much a table reports.

#pragma once

#include "check_engine_promises.h"
#include "table/merge.h"

namespace ctrlab::check::engine {

// In failing_new.cc.
extern std::atomic<int64_t> bytes_in_use;  // allocated by operator new and not freed
extern std::atomic<int64_t> largest;       // the largest single allocation
int64_t Mapped();                          // bytes of mapped pages that were written to

// pools[2], where an allocation may fail in both threads, but not while the second one is started.
inline const Pool failing_pool{"the work halved between two threads without memory",
                               {nullptr, [](void*, int64_t n, int64_t, Body body, void* c) {
                                  may_fail = false;
                                  std::thread other([=] {
                                    may_fail = true;
                                    body(c, n / 2, n);
                                  });
                                  may_fail = true;
                                  if (n / 2 > 0) body(c, 0, n / 2);
                                  other.join();
                                }}};

// Merges equal keys and looks up their rows, each alone and two in a sum.
inline Status MergeAndLookup(Table* table, const std::vector<int64_t>& keys, const Pool& pool) try {
  const int64_t rows = std::ssize(keys) / 2, dim = table->dim();
  std::vector<int64_t> splits(rows + 1);
  for (int64_t b = 0; b <= rows; ++b) splits[b] = 2 * b;
  const LookupColumn columns[] = {{keys.data(), nullptr, 0, 0, 0, kRows}, {keys.data(), splits.data(), 0, 1, 0, kSum}};
  const LookupTable shape{0, dim};
  const int64_t widths[] = {dim, dim};
  const LookupInput input{columns, 2, &shape, 1, widths, rows};
  Floats out[] = {Floats(rows * dim), Floats(rows * dim)}, merged(keys.size() * dim);
  std::vector<int64_t> unique(keys.size()), counts(keys.size());
  float* const to[] = {out[0].data(), out[1].data()};
  const KeyMerge merge(input, pool.parallel_for);
  const MergedKeys into{unique.data(), counts.data(), merged.data()};
  merge.Write(to, &into, pool.parallel_for);
  return ctrlab::embedding::Lookup(input, &table, true, to, pool.parallel_for);
} catch (const std::bad_alloc&) {
  return Status("no memory");
}

// The number of keys that a cut gives a consumer, and the version since which they changed.
inline auto Told(const Cut& cut) {
  return std::tuple(cut.since(), cut.sizes().rows, cut.sizes().candidates, cut.sizes().removed);
}

// Whichever allocation of a call fails, nothing changes; and the call succeeds when there is memory.
inline void Allocations(uint64_t seed, int64_t memory_rows, const Pool& pool) {
  constexpr int64_t kDim = 2;
  rng.seed(seed);
  may_fail = true;
  for (const ImportKind kind : {ImportKind::kAll, ImportKind::kMore, ImportKind::kChanges}) {
    std::unique_ptr<Table> tables[2], blooms[2];
    for (int t = 0; t < 2; ++t) {
      std::unique_ptr<Table>& table = tables[t];
      TableOptions options;
      options.dim = kDim;
      options.admission = {AdmissionKind::kBloom, 2, 1000, 0.01};
      Must(Table::Make(options, &blooms[t]));
      options.admission = {AdmissionKind::kCounter, 2, 0, 0};
      Must(Table::Make(options, &table));
      if (memory_rows) Must(table->SetTier(TierOf(memory_rows, Cache::kLfu)));
      for (int64_t step = 1; step <= 3; ++step) Must(Step(table.get(), Keys(100 * step, 200), step, pools[0]));
      Must(table->EvictSteps(4, 2, pools[0].parallel_for, nullptr));
      int64_t version;
      for (const auto& one : {tables[t].get(), blooms[t].get()})
        Must(one->CaughtUp("a saver", &version));  // the log needs memory, too
    }
    Saved in;
    StateOut out;
    Must(in.Room(kDim, 0)({150, 150, 0, kind == ImportKind::kChanges ? 150 : 0}, &out));
    for (int64_t i = 0; i < 150; ++i) {
      const int64_t key = 250 + 2 * i;  // rows become candidates, candidates become rows, others are removed
      in.keys[i] = key, in.frequencies[i] = 7, in.steps[i] = 9, in.values[i * kDim] = static_cast<float>(key);
      in.candidate_keys[i] = key + 1, in.candidate_counts[i] = 1, in.candidate_steps[i] = 8;
      if (!in.removed.empty()) in.removed[i] = 150 + i;
    }
    const std::vector<int64_t> keys = Keys(180, 150 + Uniform(0, 20)), counts(keys.size(), 1);
    const Floats gradient(keys.size() * kDim, 1.0f);
    const MergedBatch batch{keys.data(), counts.data(), gradient.data(), std::ssize(keys)};
    StepRule rule{};
    rule.kind = kSgd, rule.learning_rate = 1, rule.step = 10;
    enum Call { kLookup, kPrefetch, kImport, kNorms, kUpdate, kUpdateTwo, kEvict, kCut };
    const auto call = [&](int t, Call what) -> Status {
      Table* table = tables[t].get();
      switch (what) {
        case kLookup:
          return MergeAndLookup(table, keys, pool);
        case kPrefetch:
          return table->Prefetch(keys.data(), std::ssize(keys), pool.parallel_for);
        case kImport:
          return table->Import(kind, {}, in.Sizes(), 0, in.In(), pool.parallel_for);
        case kNorms: {
          double squares[2];
          const TableStep steps[] = {{blooms[t].get(), batch}, {table, batch}};
          return ctrlab::embedding::Norms(steps, rule, pool.parallel_for, squares);
        }
        case kUpdate:
          return table->Update(batch, rule, pool.parallel_for);
        case kEvict:
          return table->EvictSteps(12, 4, pool.parallel_for, nullptr);
        case kUpdateTwo: {
          const TableStep steps[] = {{blooms[t].get(), batch}, {table, batch}};
          return ctrlab::embedding::Update(steps, rule, pool.parallel_for);
        }
        case kCut: {
          std::unique_ptr<Cut> cut;
          return table->CutFor("a saver", pool.parallel_for, &cut);
        }
      }
      return Status();
    };
    const auto held = [&](int t) {
      Saved saved;
      Must(blooms[t]->Export({}, saved.Room(kDim, 0), pools[0].parallel_for));
      return std::tuple(Held(tables[t].get()), Held(blooms[t].get()), saved.filter);
    };
    for (const Call what :
         {kLookup, kPrefetch, kImport, kLookup, kNorms, kUpdate, kUpdateTwo, kEvict, kNorms, kUpdateTwo, kCut}) {
      Must(call(1, what));
      const auto before = held(0);
      for (int64_t n = 1;; ++n) {
        fail_in = n;
        const Status status = call(0, what);
        const bool failed = fail_in == 0;
        fail_in = 0;
        if (!failed) Must(status);
        // A call that only reads may succeed without the memory to keep what it read.
        if (what <= kPrefetch ? !failed : status.ok()) break;
        if (held(0) != before) Wrong("a call without memory that changed something", n);
      }
      if (held(0) != held(1)) Wrong("another state after calls without memory", what);
    }
    for (const auto& pair : {tables, blooms}) {
      std::unique_ptr<Cut> cuts[2];
      for (int t = 0; t < 2; ++t) Must(pair[t]->CutFor("a saver", pools[0].parallel_for, &cuts[t]));
      if (Told(*cuts[0]) != Told(*cuts[1])) Wrong("other changes after calls without memory", static_cast<int>(kind));
    }
  }
}

// A lookup allocates no more memory than its keys below need.
inline void Little(uint64_t) {
  constexpr int64_t kDim = 40'000;
  const TierOptions tier = TierOf(20, Cache::kLru);
  const auto table = NewTable(kDim, {}, &tier);
  for (int64_t step = 1; step <= 4; ++step) Must(Step(table.get(), Keys(10 * step, 10), step, pools[0]));
  Floats out(kDim);
  const auto most_asked_for = [&](int64_t key) {
    const LookupColumn column{&key, nullptr, 0, 0, 0, kRows};
    const LookupTable shape{0, kDim};
    const int64_t width = kDim;
    float* to = out.data();
    Table* tables = table.get();
    largest = 0;
    Must(ctrlab::embedding::Lookup({&column, 1, &shape, 1, &width, 1}, &tables, false, &to, pools[0].parallel_for));
    return largest.load();
  };
  if (const int64_t bytes = most_asked_for(45); bytes > 4096) Wrong("memory for a key that is in memory", bytes);
  std::vector<int64_t> below;
  Must(table->KeysBelow(&below));
  if (below.empty()) Wrong("rows that did not sink", 0);
  if (const int64_t bytes = most_asked_for(below[0]); bytes > 3 * 4 * kDim) Wrong("memory for one key below", bytes);
}

// The memory in Stats is what operator new and mmap have given the table.
inline void Bytes(uint64_t seed) {
  const int64_t before = bytes_in_use + Mapped();
  const TierOptions tier = TierOf(40'000, Cache::kLru);
  const auto table = NewTable(8, {AdmissionKind::kCounter, 2, 0, 0}, seed % 2 ? &tier : nullptr);
  int64_t version;
  Must(table->CaughtUp("nobody who comes again", &version));
  const auto check = [&](const char* what) {
    const TableStats stats = table->Stats();
    const int64_t held = bytes_in_use + Mapped() - before;
    if (std::abs(stats.bytes - held) > held / 20) {
      std::printf("%" PRId64 " bytes said, %" PRId64 " held\n", stats.bytes, held);
      Wrong(what, stats.bytes - held);
    }
  };
  int64_t step = 0;
  for (int k = 0; k < 2; ++k) {
    for (int64_t first = 0; first < 200'000; first += 10'000) Must(Step(table.get(), Keys(first, 10'000), ++step, pools[0]));
    check("memory that is not counted while it fills");
  }
  for (int64_t first = 0; first < 200'000; first += 50'000) {
    const std::vector<int64_t> keys = Keys(first, 20'000);
    Must(table->Prefetch(keys.data(), std::ssize(keys), pools[0].parallel_for));
  }
  check("memory that is not counted after rows came up");
  Must(table->EvictSteps(step, 10, pools[0].parallel_for, nullptr));
  check("memory that is not counted after an eviction");
  for (int k = 0; k < 5000; ++k) Must(table->CaughtUp("one of many consumers, " + std::to_string(k), &version));
  for (int k = 0; k < 5000; ++k) {
    Must(Step(table.get(), Keys(k, 1), ++step, pools[0]));
    Must(table->CaughtUp("one who comes often", &version));
  }
  check("memory of consumers and intervals that is not counted");
}

}  // namespace ctrlab::check::engine
