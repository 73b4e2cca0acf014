// An operator new that fails on request and counts its bytes, and an mmap that counts its bytes (linked with
// --wrap=mmap,--wrap=munmap). In a separate file, so that compilers can't inline them into their users.

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace ctrlab::check::engine {

std::atomic<int64_t> fail_in = 0;
thread_local bool may_fail = false;
std::atomic<int64_t> bytes_in_use = 0, largest = 0;

namespace {

std::mutex mapping;

std::map<char*, size_t>& Mappings() {
  static std::map<char*, size_t> mappings;
  return mappings;
}

void* Counted(void* memory, std::size_t size) {
  bytes_in_use += static_cast<int64_t>(malloc_usable_size(memory));
  for (int64_t most = largest; most < static_cast<int64_t>(size) && !largest.compare_exchange_weak(most, size);) {
  }
  return memory;
}

void Give(void* memory) {
  if (memory) bytes_in_use -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

// Bytes of mapped pages that were written to.
int64_t Mapped() {
  std::lock_guard lock(mapping);
  int64_t bytes = 0;
  std::vector<unsigned char> there;
  for (const auto& [begin, size] : Mappings()) {
    there.resize((size + 4095) / 4096);
    if (mincore(begin, size, there.data()) != 0) continue;
    bytes += 4096 * std::count_if(there.begin(), there.end(), [](unsigned char page) { return page & 1; });
  }
  return bytes;
}

}  // namespace ctrlab::check::engine

extern "C" {

void* __real_mmap(void* where, size_t size, int protection, int flags, int fd, off_t offset);
int __real_munmap(void* where, size_t size);

void* __wrap_mmap(void* where, size_t size, int protection, int flags, int fd, off_t offset) {
  using namespace ctrlab::check::engine;
  void* mapped = __real_mmap(where, size, protection, flags, fd, offset);
  std::lock_guard lock(mapping);
  const bool may = std::exchange(may_fail, false);  // the list's own memory does not count as the caller's
  if (mapped != MAP_FAILED) Mappings()[static_cast<char*>(mapped)] = size;
  may_fail = may;
  return mapped;
}

int __wrap_munmap(void* where, size_t size) {
  using namespace ctrlab::check::engine;
  std::lock_guard lock(mapping);
  Mappings().erase(static_cast<char*>(where));
  return __real_munmap(where, size);
}

}  // extern "C"

void* operator new(std::size_t size) {
  using namespace ctrlab::check::engine;
  // Among threads that arrive together one fails, and the counter never drops below 0, where a failure could not be detected.
  int64_t left = may_fail ? fail_in.load() : 0;
  while (left > 0 && !fail_in.compare_exchange_weak(left, left - 1)) {
  }
  if (left == 1) throw std::bad_alloc();
  void* memory = std::malloc(size ? size : 1);
  if (!memory) throw std::bad_alloc();
  return Counted(memory, size);
}

void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  void* memory = std::malloc(size ? size : 1);
  return memory ? ctrlab::check::engine::Counted(memory, size) : nullptr;
}

void operator delete(void* memory) noexcept { ctrlab::check::engine::Give(memory); }
void operator delete(void* memory, std::size_t) noexcept { ctrlab::check::engine::Give(memory); }
