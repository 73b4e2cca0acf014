// An operator new that fails when it is told to. Apart from its users, so that no compiler sees through it.

#include <cstdint>
#include <cstdlib>
#include <new>

namespace ctrlab::check::engine {

thread_local int64_t fail_in = 0;

}  // namespace ctrlab::check::engine

void* operator new(std::size_t size) {
  using ctrlab::check::engine::fail_in;
  if (fail_in > 0 && --fail_in == 0) throw std::bad_alloc();
  void* memory = std::malloc(size ? size : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}

void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size ? size : 1); }

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
