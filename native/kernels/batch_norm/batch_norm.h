// Bias, ReLU and batch normalisation after a dense layer's product: one kernel forward, one backward.
//
//   a = max(product + bias, 0)          mean, variance: of each column of a, over the batch
//   out = scale * (a - mean) / sqrt(variance + epsilon) + shift
//
// Shapes: B rows, n columns. The variance is the batch's own (divided by B). An empty batch has no statistics: mean and variance
// are 0, and the moving ones do not change.

#pragma once

#include "kernels/abi.h"

namespace ctrlab {

struct BatchNormInput {
  const float* product;               // [B, n]
  const float *bias, *scale, *shift;  // [n]
  int64_t rows, columns;              // B, n
  float epsilon;
};

// moving' = momentum * moving + (1 - momentum) * the batch's
struct BatchNormMoving {
  const float *mean, *variance;    // [n], before
  float *new_mean, *new_variance;  // [n], after
  float momentum;
};

struct BatchNormGradient {
  float* d_product;                   // [B, n]; may be d_out's own buffer
  float *d_bias, *d_scale, *d_shift;  // [n]
};

}  // namespace ctrlab

// Outputs are uninitialised on entry, here and below. Each sum runs in row order: bitwise equal for any number of threads.
CTRLAB_EXPORT void ctrlab_batch_norm(const ctrlab::BatchNormInput* input, const ctrlab::BatchNormMoving* moving, float* out,
                                     float* mean, float* variance, const ctrlab::ParallelFor* parallel_for);

// `mean` and `variance` are ctrlab_batch_norm's results for this input; input->shift is not read.
CTRLAB_EXPORT void ctrlab_batch_norm_gradient(const ctrlab::BatchNormInput* input, const float* mean, const float* variance,
                                              const float* d_out, const ctrlab::BatchNormGradient* gradient,
                                              const ctrlab::ParallelFor* parallel_for);
