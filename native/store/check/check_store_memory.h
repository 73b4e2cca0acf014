// Compares the memory that a store reports with what operator new has allocated.

#pragma once

#include <malloc.h>

#include "check_store_calls.h"

namespace ctrlab::check::store {

inline std::atomic<int64_t> given_out = 0;  // bytes allocated by operator new and not freed

inline void* Given(void* memory) {
  if (!memory) throw std::bad_alloc();
  given_out += static_cast<int64_t>(malloc_usable_size(memory));
  return memory;
}

inline void GivenBack(void* memory) {
  given_out -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

inline void CheckHeld(const std::string& folder) {
  constexpr int64_t kKeys = 200'000;
  sync_instead = [](int) { return 0; };
  for (const bool scratch : {false, true}) {
    fs::remove_all(folder);
    StoreOptions options = Options(folder);
    options.segment_bytes = 1'500'000;
    options.write_buffer = 100'000;
    options.direct = true;
    options.scratch = scratch;
    std::vector<int64_t> keys(1000);
    std::vector<Row> rows(1000);
    std::vector<uint8_t> found(1000);
    const int64_t before = given_out;
    auto store = Opened(options);
    int64_t held = 0;
    const auto look = [&](const std::string& when) {
      held = store->Stats().memory_bytes;
      const int64_t given = given_out - before;
      Require(std::abs(held - given) <= given / 20,
              "A store counts its memory " + when + ": " + std::to_string(held) + " of " + std::to_string(given));
    };
    const auto fill = [&](int64_t first) {
      for (int64_t i = 0; i < 1000; ++i) keys[i] = (first + i) * 7919;
    };
    look("when it is new");
    for (int64_t first = 0; first < kKeys; first += 1000) {
      fill(first);
      Good(store->Put(keys.data(), rows.data(), 1000));
    }
    look("with rows");
    for (int64_t first = 0; first < kKeys / 4; first += 1000) {
      fill(first);
      Good(store->Erase(keys.data(), 1000));
    }
    look("with rows that are erased");
    Good(store->Get(keys.data(), 1000, rows.data(), found.data(), kAlone));
    look("with buffers for reads");
    std::unique_ptr<StoreSnapshot> all, some;
    const int64_t without = held;
    Good(store->Snapshot(&all));
    look("with a snapshot");
    const int64_t buffers = 2 * (options.write_buffer + options.write_buffer / kRowBytes * 8);
    Require(held - without <= 16 * all->size() + buffers, "A snapshot takes 16 bytes a key: " + std::to_string(held - without));
    Good(store->Snapshot(&some, [](int64_t key) { return key % 10 == 0; }));
    Require(store->Stats().memory_bytes - held <= 16 * some->size() + buffers, "Of those keys that are wanted.");
    look("with two snapshots");
    all.reset(), some.reset();
    Good(store->Compact());
    look("after compaction");
    Require(held <= 40 * store->Stats().live + 4 * buffers + (4 << 20), "A row takes little: " + std::to_string(held));
    if (!scratch) {
      store.reset();
      store = Opened(options);
      look("when it is opened again");
    }
  }
  sync_instead = nullptr;
}

}  // namespace ctrlab::check::store

inline constexpr auto kCounted = ctrlab::check::store::Given;

void* operator new(size_t bytes) { return kCounted(std::malloc(bytes)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  return kCounted(std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit));
}
void operator delete(void* memory) noexcept { ctrlab::check::store::GivenBack(memory); }
void operator delete(void* memory, size_t) noexcept { ctrlab::check::store::GivenBack(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { ctrlab::check::store::GivenBack(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { ctrlab::check::store::GivenBack(memory); }
