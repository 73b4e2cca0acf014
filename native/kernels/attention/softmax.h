// Softmax, the weights of attention.

#pragma once

#include <algorithm>

#include "kernels/simd_math.h"

namespace ctrlab {

// weights[0:n] = softmax of scores[0:n], n above 0. They may be the same array.
inline void Softmax(const float* scores, int64_t n, float* weights) {
  const float most = *std::max_element(scores, scores + n);
  float sum = 0;
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t lanes = std::min(kLanes, n - i);
    float part[kLanes] = {};
    std::copy_n(scores + i, lanes, part);
    Store(part, Exp(Load(part) - most));
    for (int64_t lane = 0; lane < lanes; ++lane) sum += part[lane];
    std::copy_n(part, lanes, weights + i);
  }
  for (int64_t i = 0; i < n; ++i) weights[i] /= sum;
}

}  // namespace ctrlab
