// The table through which the bindings call their kernels: each name maps to the function that currently implements it.
//
// ctrlab_kernels_replace installs a learner's kernel, and ctrlab_kernels_restore removes it. A call in progress finishes in the
// kernel that it began with, so a library that was ever swapped in must stay loaded.

#pragma once

#include <atomic>

#include "kernels/abi.h"

namespace ctrlab {

// One row of the table. It registers itself when it is constructed, while the library is loaded.
struct KernelSlot {
  KernelSlot(const char* name, void* ours);

  const char* const name;
  void* const ours;
  std::atomic<void*> now;
  KernelSlot* const next;
};

// The function that bindings call: our kernel, or its replacement.
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

// Declares `name_kernel` for calls of ctrlab_name. Use it once per kernel, next to the op that calls it.
#define CTRLAB_KERNEL(name) \
  const Kernel<ctrlab_##name> name##_kernel { #name }

}  // namespace ctrlab

// Return values of the C interface.
enum ctrlab_status { CTRLAB_OK = 0, CTRLAB_UNKNOWN_KERNEL = 1, CTRLAB_OTHER_ABI = 2 };

CTRLAB_EXPORT int ctrlab_kernels_replace(const char* name, void* function, int abi_version);
CTRLAB_EXPORT int ctrlab_kernels_restore(const char* name);
// CTRLAB_ABI_VERSION at the time this library was built.
CTRLAB_EXPORT int ctrlab_kernels_abi_version();
