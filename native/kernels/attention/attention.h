// DIN's activation unit over a ragged batch, without padding.
//
//   s_n = MLP([q_b, k_n, q_b - k_n, q_b * k_n])      for each event n of example b
//   a_n = exp(s_n) / sum over the example's events of exp(s)
//   attended_b = sum over the example's events of a_n k_n
//
// Shapes: B examples ("rows"), N events, C numbers per event. Row b has events splits[b] to splits[b + 1] - 1; a row without
// events has attended 0. The caller has checked splits and layers; a kernel may trust them.

#pragma once

#include "kernels/mlp.h"

namespace ctrlab {

struct AttentionInput {
  const float* query;        // [B, C]
  const float* keys;         // [N, C]
  const int64_t* splits;     // [B + 1]
  int64_t rows, width;       // B, C
  const DenseLayer* layers;  // the first takes 4 C numbers, the last gives 1
  int64_t layer_count;
};

struct AttentionGradient {
  float* query;                 // [B, C]
  float* keys;                  // [N, C]
  const DenseGradient* layers;  // [layer_count]
};

}  // namespace ctrlab

// scores [N]; and for the gradient `kept` [N * Kept(layers)], each sigmoid's outputs. Both are uninitialised on entry.
CTRLAB_EXPORT void ctrlab_attention_scores(const ctrlab::AttentionInput* input, float* scores, float* kept,
                                           const ctrlab::ParallelFor* parallel_for);

// scores [N] -> weights [N], attended [B, C], uninitialised on entry. Reads only keys and splits of the input.
CTRLAB_EXPORT void ctrlab_attention_pool(const ctrlab::AttentionInput* input, const float* scores, float* weights,
                                         float* attended, const ctrlab::ParallelFor* parallel_for);

// d_weights [N], d_attended [B, C] -> all gradients, uninitialised on entry. Bitwise equal results for any number of threads.
CTRLAB_EXPORT void ctrlab_attention_gradient(const ctrlab::AttentionInput* input, const float* weights, const float* kept,
                                             const float* d_weights, const float* d_attended,
                                             const ctrlab::AttentionGradient* gradient, const ctrlab::ParallelFor* parallel_for);
