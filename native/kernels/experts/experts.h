// MMoE's experts and their mixture. Experts are E towers of L dense layers with ReLU, all on the same input:
//
//   hidden[0][e] = relu(x kernels[0][e] + biases[0][e]),  hidden[l][e] = relu(hidden[l - 1][e] kernels[l][e] + biases[l][e])
//
// and each of K tasks mixes their outputs, by a softmax over the experts:
//
//   gates[b, k] = softmax(logits[b, k]),  out[k, b] = sum over e of gates[b, k, e] * experts[e, b]
//
// Shapes: B rows, E experts, L layers, K tasks; layer l maps sizes[l] numbers per row to sizes[l + 1], a multiple of 16.

#pragma once

#include "kernels/abi.h"

namespace ctrlab {

struct ExpertsInput {
  const float* x;               // [B, sizes[0]]
  const float* const* kernels;  // L of [E, sizes[l], sizes[l + 1]]
  const float* const* biases;   // L of [E, sizes[l + 1]]
  const int64_t* sizes;         // [L + 1]
  int64_t layers;               // L, at least 1
  int64_t experts;              // E
  int64_t rows;                 // B
};

struct MixtureInput {
  const float* experts;                      // [E, B, H]
  const float* logits;                       // [B, K * E]
  int64_t rows, expert_count, tasks, width;  // B, E, K, H
};

// Floats of `scratch` for the experts' gradient: the gradient of each layer's sums, and the transposed kernels with padded rows.
inline int64_t ExpertsScratch(const ExpertsInput& input) {
  int64_t floats = input.rows * (input.sizes[0] + 15);
  for (int64_t l = 0; l < input.layers; ++l) {
    floats += input.experts * input.sizes[l + 1] * (input.rows + input.sizes[l] + 15);
  }
  return floats;
}

}  // namespace ctrlab

// hidden: L of [E, B, sizes[l + 1]], uninitialised on entry, like all outputs here; the last is the result.
CTRLAB_EXPORT void ctrlab_experts(const ctrlab::ExpertsInput* input, float* const* hidden,
                                  const ctrlab::ParallelFor* parallel_for);

// d_out [E, B, sizes[L]] -> d_x [B, sizes[0]] and the gradients of kernels and biases, in their shapes. Each sum has a fixed
// order: bitwise equal results for any number of threads.
CTRLAB_EXPORT void ctrlab_experts_gradient(const ctrlab::ExpertsInput* input, const float* const* hidden, const float* d_out,
                                           float* scratch, float* d_x, float* const* d_kernels, float* const* d_biases,
                                           const ctrlab::ParallelFor* parallel_for);

// gates [B, K * E], out [K, B, H].
CTRLAB_EXPORT void ctrlab_mixture(const ctrlab::MixtureInput* input, float* gates, float* out,
                                  const ctrlab::ParallelFor* parallel_for);

// d_out [K, B, H] -> d_experts [E, B, H], d_logits [B, K * E].
CTRLAB_EXPORT void ctrlab_mixture_gradient(const ctrlab::MixtureInput* input, const float* gates, const float* d_out,
                                           float* d_experts, float* d_logits, const ctrlab::ParallelFor* parallel_for);
