#include "registry.h"

#include <cstring>

#include "attention.h"
#include "auxiliary.h"
#include "batch_norm.h"
#include "experts.h"
#include "gru.h"
#include "indicator.h"
#include "interaction.h"
#include "lookup.h"
#include "optimizer_step.h"
#include "parsing.h"
#include "pointwise.h"
#include "snapshot.h"

namespace ctrlab {
namespace {

KernelSlot Slot(const char* name, void* function) { return {name, function, function}; }

KernelSlot table[] = {
    Slot("gru", reinterpret_cast<void*>(&ctrlab_gru)),
    Slot("gru_gradient", reinterpret_cast<void*>(&ctrlab_gru_gradient)),
    Slot("attention_scores", reinterpret_cast<void*>(&ctrlab_attention_scores)),
    Slot("attention_pool", reinterpret_cast<void*>(&ctrlab_attention_pool)),
    Slot("attention_gradient", reinterpret_cast<void*>(&ctrlab_attention_gradient)),
    Slot("auxiliary", reinterpret_cast<void*>(&ctrlab_auxiliary)),
    Slot("indicator", reinterpret_cast<void*>(&ctrlab_indicator)),
    Slot("indicator_gradient", reinterpret_cast<void*>(&ctrlab_indicator_gradient)),
    Slot("indicator_weights_gradient", reinterpret_cast<void*>(&ctrlab_indicator_weights_gradient)),
    Slot("snapshot", reinterpret_cast<void*>(&ctrlab_snapshot)),
    Slot("factorization_machine", reinterpret_cast<void*>(&ctrlab_factorization_machine)),
    Slot("factorization_machine_gradient", reinterpret_cast<void*>(&ctrlab_factorization_machine_gradient)),
    Slot("dot_interaction", reinterpret_cast<void*>(&ctrlab_dot_interaction)),
    Slot("dot_interaction_gradient", reinterpret_cast<void*>(&ctrlab_dot_interaction_gradient)),
    Slot("experts", reinterpret_cast<void*>(&ctrlab_experts)),
    Slot("experts_gradient", reinterpret_cast<void*>(&ctrlab_experts_gradient)),
    Slot("mixture", reinterpret_cast<void*>(&ctrlab_mixture)),
    Slot("mixture_gradient", reinterpret_cast<void*>(&ctrlab_mixture_gradient)),
    Slot("batch_norm", reinterpret_cast<void*>(&ctrlab_batch_norm)),
    Slot("batch_norm_gradient", reinterpret_cast<void*>(&ctrlab_batch_norm_gradient)),
    Slot("id_splits", reinterpret_cast<void*>(&ctrlab_id_splits)),
    Slot("parse_ids", reinterpret_cast<void*>(&ctrlab_parse_ids)),
    Slot("parse_numbers", reinterpret_cast<void*>(&ctrlab_parse_numbers)),
    Slot("sequence_length", reinterpret_cast<void*>(&ctrlab_sequence_length)),
    Slot("lookup", reinterpret_cast<void*>(&ctrlab_lookup)),
    Slot("lookup_merge", reinterpret_cast<void*>(&ctrlab_lookup_merge)),
    Slot("optimizer_step", reinterpret_cast<void*>(&ctrlab_optimizer_step)),
    Slot("pointwise", reinterpret_cast<void*>(&ctrlab_pointwise)),
    Slot("pointwise_gradient", reinterpret_cast<void*>(&ctrlab_pointwise_gradient)),
};

}  // namespace

KernelSlot* FindKernel(const char* name) {
  for (KernelSlot& slot : table) {
    if (std::strcmp(slot.name, name) == 0) return &slot;
  }
  return nullptr;
}

}  // namespace ctrlab

int ctrlab_kernels_abi_version() { return CTRLAB_ABI_VERSION; }

int ctrlab_kernels_replace(const char* name, void* function, int abi_version) {
  if (abi_version != CTRLAB_ABI_VERSION) return CTRLAB_OTHER_ABI;
  ctrlab::KernelSlot* slot = ctrlab::FindKernel(name);
  if (!slot || !function) return CTRLAB_UNKNOWN_KERNEL;
  slot->now.store(function, std::memory_order_release);
  return CTRLAB_OK;
}

int ctrlab_kernels_restore(const char* name) {
  ctrlab::KernelSlot* slot = ctrlab::FindKernel(name);
  if (!slot) return CTRLAB_UNKNOWN_KERNEL;
  slot->now.store(slot->ours, std::memory_order_release);
  return CTRLAB_OK;
}
