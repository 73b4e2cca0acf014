// GRU and AUGRU over ragged histories. Row b's positions are [splits[b], splits[b + 1]); its state starts at zero.
//
//   r, u = sigmoid([x, h] W_g + b_g)      c = tanh([x, r * h] W_c + b_c)
//   u' = (1 - a) u                        (u' = u without attention)
//   h <- u' h + (1 - u') c
//
// Shapes: B rows, N = splits[B] positions, C inputs, H hidden. All matrices are row-major. The caller has checked the splits.

#pragma once

#include "kernels/abi.h"

namespace ctrlab {

struct GruInput {
  const float* x;                 // [N, C]
  const int64_t* splits;          // [B + 1]
  const float* gates_kernel;      // [C + H, 2H], the reset gate's columns, then the update gate's
  const float* gates_bias;        // [2H]
  const float* candidate_kernel;  // [C + H, H]
  const float* candidate_bias;    // [H]
  const float* attention;         // [N]; null: a plain GRU
  int64_t rows;                   // B
  int64_t inputs;                 // C, at least 1
  int64_t hidden;                 // H, at least 1
};

// The gradients of the inputs, in their shapes, uninitialised on entry. attention is null if the input's is.
struct GruGradient {
  float* x;
  float* gates_kernel;
  float* gates_bias;
  float* candidate_kernel;
  float* candidate_bias;
  float* attention;
};

}  // namespace ctrlab

// outputs [N, H]: the state after each position; last [B, H]: the state after a row's last position, zeros for an empty row;
// gates [N, 3H]: r, u (before the attention) and c of each position, kept for the gradient. All are uninitialised on entry.
CTRLAB_EXPORT void ctrlab_gru(const ctrlab::GruInput* input, float* outputs, float* last, float* gates,
                              const ctrlab::ParallelFor* parallel_for);

// Takes the forward pass's results, d_outputs [N, H] and d_last [B, H]. Bitwise equal results for any number of threads.
CTRLAB_EXPORT void ctrlab_gru_gradient(const ctrlab::GruInput* input, const float* outputs, const float* gates,
                                       const float* d_outputs, const float* d_last, const ctrlab::GruGradient* gradient,
                                       const ctrlab::ParallelFor* parallel_for);
