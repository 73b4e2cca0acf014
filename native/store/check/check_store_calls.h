// Checks the store when system calls fail or are slow: syncs, waits for reads, allocations.

#pragma once

#include <sys/syscall.h>

#include <cstdarg>
#include <new>

#include "check_store_faults.h"
#include "store/segment_store_c.h"

extern "C" long __real_syscall(long number, ...);
extern "C" void* __real__Znwm(size_t bytes);  // operator new
extern "C" void* __real__ZnwmSt11align_val_t(size_t bytes, std::align_val_t alignment);

namespace ctrlab::check::store {

inline std::atomic<int> waits_to_fail = 0;
// Number of allocations that succeed before one fails; negative: all succeed. For the main thread, and for the others.
inline std::atomic<int64_t> allocations_left = -1, allocations_left_elsewhere = -1;
inline thread_local bool in_main = false;

inline void MaybeNoMemory() {
  if ((in_main ? allocations_left : allocations_left_elsewhere)-- == 0) throw std::bad_alloc();
}

inline Row RowOf(int64_t key) {
  Row row{};
  std::memcpy(row.data(), &key, sizeof key);
  return row;
}

inline Model PutKeys(SegmentStore& store, int64_t from, int64_t to) {
  Model model;
  for (int64_t key = from; key < to; ++key) {
    model[key] = RowOf(key);
    Good(store.Put(&key, &model[key], 1));
  }
  return model;
}

inline void CheckRefused(const std::string& folder) {
  fs::remove_all(folder);
  StoreOptions options = Options(folder);
  options.direct = true;
  int to_fail = 0;
  bool folders = false;
  sync_instead = [&](int fd) {
    struct stat about;
    fstat(fd, &about);
    const bool manifest = fs::read_symlink("/proc/self/fd/" + std::to_string(fd)).string().find("MANIFEST") != std::string::npos;
    if ((S_ISDIR(about.st_mode) || manifest) != folders || to_fail-- <= 0) return 0;
    errno = EIO;
    return -1;
  };
  auto store = Opened(options);
  Model model = PutKeys(*store, 0, 50);
  folders = true;  // a manifest is rewritten completely, so one refused sync need not cause another
  to_fail = 2;
  Refused(store->Flush(), "Can't sync");
  Refused(store->Flush(), "Can't sync");
  Good(store->Flush());
  model.merge(PutKeys(*store, 60, 500));
  folders = false;
  to_fail = 1;
  for (int i = 0; i < 3; ++i) Refused(store->Flush(), "close the store and open it again");
  Require(to_fail <= 0, "One sync failed.");
  const int64_t key = 50;
  model[key] = RowOf(key);
  Good(store->Put(&key, &model[key], 1));
  Refused(store->Flush(), "close the store and open it again");
  SameByGet(*store, model);
  store.reset();
  store = Opened(options);
  Require(Content(*store) == model, "A disk that has it all loses nothing.");
  Good(store->Flush());

  waits_to_fail = 1;
  std::vector<int64_t> keys;
  for (const auto& [key, row] : model) keys.push_back(key);
  std::vector<Row> rows(keys.size());
  std::vector<uint8_t> found(keys.size());
  Refused(store->Get(keys.data(), std::ssize(keys), rows.data(), found.data(), kAlone), "Can't wait for reads");
  Require(waits_to_fail == 0, "One wait failed.");
  SameByGet(*store, model);
  store.reset();
  sync_instead = nullptr;
}

// A disk that syncs no segment, so that none can be sealed: the number of waiting segments stays bounded, and no accepted write
// is lost.
inline void CheckUnsealed(const std::string& folder) {
  for (const Compaction compaction : {Compaction::kSync, Compaction::kAsync}) {
    fs::remove_all(folder);
    StoreOptions options = Options(folder);
    options.compaction = compaction;
    bool broken = true;
    sync_instead = [&](int fd) {
      if (!broken || !fs::read_symlink("/proc/self/fd/" + std::to_string(fd)).string().ends_with(".seg")) return 0;
      errno = EIO;
      return -1;
    };
    auto store = Opened(options);
    Model model;
    int untaken = 0;
    for (int64_t key = 0; untaken < 50; ++key) {
      Require(key < 20'000, "A store that can seal nothing takes no more at last.");
      const Row row = RowOf(key);
      const Status status = store->Put(&key, &row, 1);
      Row got;
      uint8_t found;
      Good(store->Get(&key, 1, &got, &found, kAlone));
      if (!status.ok()) Refused(status, "the system could not put");
      if (found) model[key] = row;
      if (!found) Refused(status, "At most 8 full segments may wait to be sealed"), ++untaken;
    }
    Require(store->Stats().segments <= 10, "Full segments are bounded: " + std::to_string(store->Stats().segments));
    SameByGet(*store, model);
    store.reset();
    broken = false;
    store = Opened(options);
    Require(Content(*store) == model, "What was taken is there.");
    Good(store->Put(&model.begin()->first, &model.begin()->second, 1));
    store.reset();
    sync_instead = nullptr;
  }
}

// Repeats the same calls through the C interface, with a later allocation failing each time, until none fails.
inline void CheckMemory(const std::string& folder) {
  in_main = true;
  sync_instead = [](int) { return 0; };
  constexpr int64_t count = 600;
  std::vector<int64_t> keys(count), next_keys(count);
  std::vector<Row> rows(count), got(count), next_rows(count);
  std::vector<uint8_t> found(count);
  Model model;
  for (int64_t i = 0; i < count; ++i) {
    keys[i] = i * 7;
    rows[i] = RowOf(keys[i]);
    if (i >= count / 2) model[keys[i]] = rows[i];
  }
  bool refused = true;
  for (int64_t left = 0; refused; ++left) {
    fs::remove_all(folder);
    refused = false;
    allocations_left = left;
    StoreProblem problem;
    auto until_good = [&](auto call) {
      while (call()) {
        Require(std::string(problem.sentence) == "There is not enough memory for the store.", problem.sentence);
        Require(!refused, "A call that was refused once for want of memory succeeds then.");
        refused = true;
      }
    };
    int64_t store = 0, snapshot = 0, size = 0, taken = 0;
    auto open = [&] { return ctrlab_store_open(folder.c_str(), kRowBytes, 6000, 4096, 1, 0, &store, &problem); };
    until_good(open);
    until_good([&] { return ctrlab_store_put(store, keys.data(), rows.data(), count, &problem); });
    until_good([&] { return ctrlab_store_erase(store, keys.data(), count / 2, &problem); });
    until_good([&] { return ctrlab_store_flush(store, &problem); });
    until_good([&] { return ctrlab_store_compact(store, &problem); });
    until_good([&] { return ctrlab_store_get(store, keys.data(), count, got.data(), found.data(), &problem); });
    until_good([&] { return ctrlab_store_snapshot(store, &snapshot, &size, &problem); });
    until_good([&] { return ctrlab_store_next(snapshot, size, next_keys.data(), next_rows.data(), &taken, &problem); });
    ctrlab_store_release(snapshot);
    ctrlab_store_close(store);
    until_good(open);
    allocations_left = -1;
    ctrlab_store_close(store);
    Model live, listed;
    for (int64_t i = 0; i < count; ++i) {
      if (found[i]) live[keys[i]] = got[i];
    }
    for (int64_t i = 0; i < taken; ++i) listed[next_keys[i]] = next_rows[i];
    Require(live == model && listed == model, "A store that lives has it all, whatever was refused.");
    Require(Content(*Opened(Options(folder))) == model, "Nothing is lost or half done for want of memory.");
  }

  fs::remove_all(folder);
  StoreOptions options = Options(folder);
  options.compaction = Compaction::kAsync;
  auto store = Opened(options);
  allocations_left_elsewhere = 5;
  do model = PutKeys(*store, 0, 300);
  while (store->Warnings().empty());
  Require(store->Warnings()[0] == "Compaction stopped: There is not enough memory for the store.", store->Warnings()[0]);
  SameByGet(*store, model);
  Good(store->Compact());
  SameByGet(*store, model);
  store.reset();
  sync_instead = nullptr;
}

// On a disk with slow syncs; only for compaction in the store's own thread.
inline void CheckBurst(const std::string& folder) {
  fs::remove_all(folder);
  in_main = true;
  sync_instead = [](int) {
    if (!in_main) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return 0;
  };
  StoreOptions options = Options(folder);
  options.compaction = Compaction::kAsync;
  auto store = Opened(options);
  const int64_t per_segment = options.segment_bytes / RecordBytes(kRowBytes);
  for (int step = 0; step < 5000; ++step) {
    const int64_t key = RandomKey();
    const Row row = RandomRow(rng());
    Good(store->Put(&key, &row, 1));
    Good(store->Relieve());
    const StoreStats stats = store->Stats();
    Require(stats.total <= 3 * stats.live + 2 * per_segment,
            "Garbage is bounded: " + std::to_string(stats.total) + " records, " + std::to_string(stats.live) + " live.");
  }
  Require(store->Stats().compactions > 0 && store->Stats().write_amplification() <= 3, "So is what compaction writes.");
  store.reset();
  sync_instead = nullptr;
}

}  // namespace ctrlab::check::store

extern "C" inline long __attribute__((used)) __wrap_syscall(long number, ...) {
  using namespace ctrlab::check::store;
  if (number == SYS_io_getevents && waits_to_fail > 0) {
    --waits_to_fail;
    errno = EIO;
    return -1;
  }
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

extern "C" inline void* __attribute__((used)) __wrap__Znwm(size_t bytes) {
  ctrlab::check::store::MaybeNoMemory();
  return __real__Znwm(bytes);
}

extern "C" inline void* __attribute__((used)) __wrap__ZnwmSt11align_val_t(size_t bytes, std::align_val_t alignment) {
  ctrlab::check::store::MaybeNoMemory();
  return __real__ZnwmSt11align_val_t(bytes, alignment);
}
