// The scalar twins of attention.h: the definition in plain loops, in double. The checker compares with these.

#pragma once

#include <algorithm>

#include "kernels/attention/attention.h"
#include "kernels/mlp_scalar.h"

namespace ctrlab::scalar {

// [q, k, q - k, q * k] of event n of row b.
inline Doubles AttentionFeatures(const AttentionInput& input, int64_t b, int64_t n) {
  const int64_t C = input.width;
  Doubles x(4 * C);
  for (int64_t c = 0; c < C; ++c) {
    const double q = input.query[b * C + c], k = input.keys[n * C + c];
    x[c] = q, x[C + c] = k, x[2 * C + c] = q - k, x[3 * C + c] = q * k;
  }
  return x;
}

inline std::vector<Doubles> AttentionLayers(const AttentionInput& input, int64_t b, int64_t n) {
  return Mlp(input.layers, input.layer_count, AttentionFeatures(input, b, n));
}

// scores [N]; `kept` as in mlp.h, without writing its padding.
inline void AttentionScores(const AttentionInput& input, float* scores, float* kept) {
  const int64_t N = input.splits[input.rows];
  for (int64_t b = 0; b < input.rows; ++b) {
    for (int64_t n = input.splits[b]; n < input.splits[b + 1]; ++n) {
      const std::vector<Doubles> outputs = AttentionLayers(input, b, n);
      scores[n] = static_cast<float>(outputs.back()[0]);
      float* layer = kept;
      for (int64_t l = 0; l < KeptLayers(input.layer_count); ++l) {
        std::copy(outputs[l + 1].begin(), outputs[l + 1].end(), layer + n * KeptOf(input.layers[l]));
        layer += N * KeptOf(input.layers[l]);
      }
    }
  }
}

inline void AttentionPool(const AttentionInput& input, const float* scores, float* weights, float* attended) {
  const int64_t C = input.width;
  for (int64_t b = 0; b < input.rows; ++b) {
    const int64_t from = input.splits[b], to = input.splits[b + 1];
    double most = -INFINITY, total = 0;
    for (int64_t n = from; n < to; ++n) most = std::max<double>(most, scores[n]);
    for (int64_t n = from; n < to; ++n) total += std::exp(scores[n] - most);
    Doubles sum(C, 0.0);
    for (int64_t n = from; n < to; ++n) {
      const double weight = std::exp(scores[n] - most) / total;
      weights[n] = static_cast<float>(weight);
      for (int64_t c = 0; c < C; ++c) sum[c] += weight * input.keys[n * C + c];
    }
    for (int64_t c = 0; c < C; ++c) attended[b * C + c] = static_cast<float>(sum[c]);
  }
}

inline void AttentionGradient(const AttentionInput& input, const float* weights, const float* d_weights, const float* d_attended,
                              const ctrlab::AttentionGradient& out) {
  const int64_t C = input.width;
  std::vector<DoubleGradient> layers = ZeroGradients(input.layers, input.layer_count);
  for (int64_t b = 0; b < input.rows; ++b) {
    const int64_t from = input.splits[b], to = input.splits[b + 1];
    const float *q = input.query + b * C, *d = d_attended + b * C;
    Doubles d_weight(to - from), d_query(C, 0.0);
    double mean = 0;
    for (int64_t n = from; n < to; ++n) {
      d_weight[n - from] = d_weights[n];
      for (int64_t c = 0; c < C; ++c) d_weight[n - from] += double{d[c]} * input.keys[n * C + c];
      mean += weights[n] * d_weight[n - from];
    }
    for (int64_t n = from; n < to; ++n) {
      const double d_score = weights[n] * (d_weight[n - from] - mean);
      const Doubles dx = MlpGradient(input.layers, input.layer_count, AttentionLayers(input, b, n), d_score, layers);
      for (int64_t c = 0; c < C; ++c) {
        const double k = input.keys[n * C + c];
        d_query[c] += dx[c] + dx[2 * C + c] + k * dx[3 * C + c];
        out.keys[n * C + c] = static_cast<float>(dx[C + c] - dx[2 * C + c] + q[c] * dx[3 * C + c] + double{weights[n]} * d[c]);
      }
    }
    std::copy(d_query.begin(), d_query.end(), out.query + b * C);
  }
  for (int64_t l = 0; l < input.layer_count; ++l) {
    std::copy(layers[l].kernel.begin(), layers[l].kernel.end(), out.layers[l].kernel);
    std::copy(layers[l].bias.begin(), layers[l].bias.end(), out.layers[l].bias);
  }
}

}  // namespace ctrlab::scalar
