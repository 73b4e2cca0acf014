#include "kernels/registry.h"

#include <cstring>

namespace ctrlab {
namespace {

KernelSlot* first = nullptr;  // constant-initialised, so it exists before the first slot is constructed

KernelSlot* Find(const char* name) {
  for (KernelSlot* slot = first; slot; slot = slot->next) {
    if (std::strcmp(slot->name, name) == 0) return slot;
  }
  return nullptr;
}

}  // namespace

KernelSlot::KernelSlot(const char* name, void* ours) : name(name), ours(ours), now(ours), next(first) { first = this; }

}  // namespace ctrlab

int ctrlab_kernels_abi_version() { return CTRLAB_ABI_VERSION; }

int ctrlab_kernels_replace(const char* name, void* function, int abi_version) {
  if (abi_version != CTRLAB_ABI_VERSION) return CTRLAB_OTHER_ABI;
  ctrlab::KernelSlot* const slot = ctrlab::Find(name);
  if (!slot || !function) return CTRLAB_UNKNOWN_KERNEL;
  slot->now.store(function, std::memory_order_release);
  return CTRLAB_OK;
}

int ctrlab_kernels_restore(const char* name) {
  ctrlab::KernelSlot* const slot = ctrlab::Find(name);
  if (!slot) return CTRLAB_UNKNOWN_KERNEL;
  slot->now.store(slot->ours, std::memory_order_release);
  return CTRLAB_OK;
}
