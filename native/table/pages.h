// A block of zeroed memory. A large block uses huge pages: accesses to a table are random, and with small pages each one would
// cost a page table walk.

#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

namespace ctrlab::embedding {

constexpr int64_t kHugePage = int64_t{2} << 20;

constexpr int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

class Pages {
 public:
  Pages() = default;

  // Physical memory is only used where the block is written. The first `small` bytes use small pages, so that a table with few
  // rows stays small. Throws std::bad_alloc.
  explicit Pages(int64_t bytes, int64_t small = 0) {
    if (bytes <= 0) return;
    const bool huge = bytes >= kHugePage;
    size_ = RoundUp(bytes, 4096) + (huge ? kHugePage : 0);
    void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    mapped_ = static_cast<char*>(mapped);
    data_ = huge ? mapped_ + (-reinterpret_cast<uintptr_t>(mapped_) & (kHugePage - 1)) : mapped_;
#ifdef MADV_HUGEPAGE
    if (bytes - small >= kHugePage) madvise(data_ + small, bytes - small, MADV_HUGEPAGE);  // a hint; the system may ignore it
#endif
  }

  Pages(Pages&& other) noexcept { *this = std::move(other); }
  Pages& operator=(Pages&& other) noexcept {
    std::swap(mapped_, other.mapped_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Pages() {
    if (mapped_) munmap(mapped_, size_);
  }

  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  char *mapped_ = nullptr, *data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace ctrlab::embedding
