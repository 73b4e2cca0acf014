// The scalar twins of batch_norm.h: the definition in plain loops, in double.

#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/batch_norm/batch_norm.h"

namespace ctrlab::scalar {

inline double Activated(const BatchNormInput& input, int64_t b, int64_t c) {
  return std::max(double{input.product[b * input.columns + c]} + input.bias[c], 0.0);
}

inline void BatchNorm(const BatchNormInput& input, const BatchNormMoving& moving, float* out, float* mean, float* variance) {
  const int64_t B = input.rows, n = input.columns;
  for (int64_t c = 0; c < n; ++c) {
    double sum = 0, squares = 0;
    for (int64_t b = 0; b < B; ++b) sum += Activated(input, b, c);
    const double center = B ? sum / B : 0;
    for (int64_t b = 0; b < B; ++b) squares += std::pow(Activated(input, b, c) - center, 2);
    const double spread = B ? squares / B : 0, factor = input.scale[c] / std::sqrt(spread + input.epsilon);
    for (int64_t b = 0; b < B; ++b) {
      out[b * n + c] = static_cast<float>((Activated(input, b, c) - center) * factor + input.shift[c]);
    }
    mean[c] = static_cast<float>(center);
    variance[c] = static_cast<float>(spread);
    const double old = B ? moving.momentum : 1.0;
    moving.new_mean[c] = static_cast<float>(old * moving.mean[c] + (1 - old) * center);
    moving.new_variance[c] = static_cast<float>(old * moving.variance[c] + (1 - old) * spread);
  }
}

inline void BatchNormGradients(const BatchNormInput& input, const float* mean, const float* variance, const float* d_out,
                               const BatchNormGradient& gradient) {
  const int64_t B = input.rows, n = input.columns;
  for (int64_t c = 0; c < n; ++c) {
    const double inverse = 1 / std::sqrt(double{variance[c]} + input.epsilon);
    double sum = 0, along = 0, d_bias = 0;
    for (int64_t b = 0; b < B; ++b) {
      sum += d_out[b * n + c];
      along += d_out[b * n + c] * (Activated(input, b, c) - mean[c]) * inverse;
    }
    for (int64_t b = 0; b < B; ++b) {
      const double a = Activated(input, b, c), normal = (a - mean[c]) * inverse;
      const double d = a > 0 ? input.scale[c] * inverse * (d_out[b * n + c] - sum / B - normal * along / B) : 0;
      gradient.d_product[b * n + c] = static_cast<float>(d);
      d_bias += d;
    }
    gradient.d_bias[c] = static_cast<float>(d_bias);
    gradient.d_scale[c] = static_cast<float>(along);
    gradient.d_shift[c] = static_cast<float>(sum);
  }
}

}  // namespace ctrlab::scalar
