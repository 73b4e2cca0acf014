// The table through which the bindings reach their kernels: a name, and the function that stands behind it now.
//
// A learner's kernel takes the place of ours by ctrlab_kernels_replace and leaves it by ctrlab_kernels_restore. A call that
// runs meanwhile finishes in the kernel it began with, so a library that was ever swapped in must stay loaded.

#pragma once

#include <atomic>

#include "abi.h"

namespace ctrlab {

// A row of the table; lives as long as the library.
struct KernelSlot {
  const char* name;
  void* ours;
  std::atomic<void*> now;
};

// Null where no kernel has that name.
KernelSlot* FindKernel(const char* name);

// A kernel of the table, as a function of its type.
template <class Fn>
class Kernel {
 public:
  explicit Kernel(const char* name) : slot_(FindKernel(name)) {}
  Fn get() const { return reinterpret_cast<Fn>(slot_->now.load(std::memory_order_acquire)); }

 private:
  KernelSlot* slot_;
};

}  // namespace ctrlab

// What the C interface answers.
enum ctrlab_status { CTRLAB_OK = 0, CTRLAB_UNKNOWN_KERNEL = 1, CTRLAB_OTHER_ABI = 2 };

CTRLAB_EXPORT int ctrlab_kernels_replace(const char* name, void* function, int abi_version);
CTRLAB_EXPORT int ctrlab_kernels_restore(const char* name);
// CTRLAB_ABI_VERSION as of this library's build.
CTRLAB_EXPORT int ctrlab_kernels_abi_version();
