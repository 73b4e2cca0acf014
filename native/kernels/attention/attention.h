// DIN's activation unit over a ragged batch: only the events that are there.
//
//   s_n = MLP([q_b, k_n, q_b - k_n, q_b * k_n])      for each event n of row b
//   a_n = exp(s_n) / sum over the row's events of exp(s)
//   attended_b = sum over the row's events of a_n k_n
//
// Shapes: B rows, N events, C numbers an event. Row b has events splits[b] to splits[b + 1] - 1; a row without any has
// attended 0. The caller has checked splits and layers; a kernel may trust them.

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

// scores [N]; and for the gradient `kept` [N * Kept(layers)], each sigmoid's outputs. Both come uninitialised.
CTRLAB_EXPORT void ctrlab_attention_scores(const ctrlab::AttentionInput* input, float* scores, float* kept,
                                           const ctrlab::ParallelFor* parallel_for);

// scores [N] -> weights [N], attended [B, C], uninitialised. Of the input it reads keys and splits alone.
CTRLAB_EXPORT void ctrlab_attention_pool(const ctrlab::AttentionInput* input, const float* scores, float* weights,
                                         float* attended, const ctrlab::ParallelFor* parallel_for);

// d_weights [N], d_attended [B, C] -> the gradient of everything, uninitialised. The same bits on any number of threads.
CTRLAB_EXPORT void ctrlab_attention_gradient(const ctrlab::AttentionInput* input, const float* weights, const float* kept,
                                             const float* d_weights, const float* d_attended,
                                             const ctrlab::AttentionGradient* gradient, const ctrlab::ParallelFor* parallel_for);
