// The scalar twins of pointwise.h: the definition in plain loops, in double.

#pragma once

#include <algorithm>

#include "kernels/pointwise/pointwise.h"

namespace ctrlab::scalar {

inline double PointwiseAt(const PointwiseInput& input, int64_t b, int64_t c) {
  const double x = input.x[b * input.columns + c], p = x + input.shift[c];
  switch (input.kind) {
    case kPrelu:
      return p > 0 ? p : input.slope[c] * p;
    case kAffine:
      return input.slope[c] * x + input.shift[c];
    default:
      return std::max(p, 0.0);
  }
}

inline void Pointwise(const PointwiseInput& input, float* out) {
  for (int64_t b = 0; b < input.rows; ++b) {
    for (int64_t c = 0; c < input.columns; ++c) out[b * input.columns + c] = static_cast<float>(PointwiseAt(input, b, c));
  }
}

inline void PointwiseGradients(const PointwiseInput& input, const float* d_out, const PointwiseGradient& gradient) {
  const int64_t n = input.columns;
  for (int64_t c = 0; c < n; ++c) {
    double d_shift = 0, d_slope = 0;
    for (int64_t b = 0; b < input.rows; ++b) {
      const double x = input.x[b * n + c], p = x + input.shift[c], d = d_out[b * n + c];
      double d_x = d;
      if (input.kind == kRelu) d_x = p > 0 ? d : 0;
      if (input.kind == kPrelu) d_x = p > 0 ? d : input.slope[c] * d;
      if (input.kind == kAffine) d_x = input.slope[c] * d;
      gradient.d_x[b * n + c] = static_cast<float>(d_x);
      d_shift += input.kind == kAffine ? d : d_x;
      if (input.kind == kPrelu && p <= 0) d_slope += d * p;
      if (input.kind == kAffine) d_slope += d * x;
    }
    gradient.d_shift[c] = static_cast<float>(d_shift);
    if (gradient.d_slope) gradient.d_slope[c] = static_cast<float>(d_slope);
  }
}

}  // namespace ctrlab::scalar
