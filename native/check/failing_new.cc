// An operator new that fails when it is told to. Apart from its users, so that no compiler sees through it.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace ctrlab::check::engine {

std::atomic<int64_t> fail_in = 0;
thread_local bool may_fail = false;

}  // namespace ctrlab::check::engine

void* operator new(std::size_t size) {
  using namespace ctrlab::check::engine;
  if (may_fail && fail_in > 0 && --fail_in == 0) throw std::bad_alloc();
  void* memory = std::malloc(size ? size : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}

void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size ? size : 1); }

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
