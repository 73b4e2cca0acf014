// Counts a store's memory: all its large allocations go through here.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory_resource>
#include <new>

namespace ctrlab::embedding {

class StoreMemory final : public std::pmr::memory_resource {
 public:
  int64_t bytes() const { return bytes_; }

 private:
  void* do_allocate(size_t bytes, size_t alignment) override {
    void* const memory = Aligned(alignment) ? ::operator new(bytes, std::align_val_t(alignment)) : ::operator new(bytes);
    bytes_ += static_cast<int64_t>(bytes);
    return memory;
  }
  void do_deallocate(void* memory, size_t bytes, size_t alignment) override {
    bytes_ -= static_cast<int64_t>(bytes);
    Aligned(alignment) ? ::operator delete(memory, std::align_val_t(alignment)) : ::operator delete(memory);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  static bool Aligned(size_t alignment) { return alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__; }

  std::atomic<int64_t> bytes_ = 0;
};

}  // namespace ctrlab::embedding
