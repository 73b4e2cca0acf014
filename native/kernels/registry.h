// The table through which the bindings reach their kernels: a name, and the function that stands behind it now.
//
// A learner's kernel takes the place of ours by ctrlab_kernels_replace and leaves it by ctrlab_kernels_restore. A call that
// runs meanwhile finishes in the kernel it began with, so a library that was ever swapped in must stay loaded.

#pragma once

#include <atomic>

#include "kernels/abi.h"

namespace ctrlab {

// A row of the table, which it joins when it is made, as the library is loaded.
struct KernelSlot {
  KernelSlot(const char* name, void* ours);

  const char* const name;
  void* const ours;
  std::atomic<void*> now;
  KernelSlot* const next;
};

// What bindings call: our kernel, or the one that has taken its place.
template <auto* ours>
class Kernel {
 public:
  explicit Kernel(const char* name) : slot_(name, reinterpret_cast<void*>(ours)) {}

  template <class... Arguments>
  void operator()(Arguments... arguments) const {
    reinterpret_cast<decltype(ours)>(slot_.now.load(std::memory_order_acquire))(arguments...);
  }

 private:
  KernelSlot slot_;
};

// `name_kernel`, to be called as ctrlab_name; once a kernel, beside the op that calls it.
#define CTRLAB_KERNEL(name) \
  const Kernel<ctrlab_##name> name##_kernel { #name }

}  // namespace ctrlab

// What the C interface answers.
enum ctrlab_status { CTRLAB_OK = 0, CTRLAB_UNKNOWN_KERNEL = 1, CTRLAB_OTHER_ABI = 2 };

CTRLAB_EXPORT int ctrlab_kernels_replace(const char* name, void* function, int abi_version);
CTRLAB_EXPORT int ctrlab_kernels_restore(const char* name);
// CTRLAB_ABI_VERSION as of this library's build.
CTRLAB_EXPORT int ctrlab_kernels_abi_version();
