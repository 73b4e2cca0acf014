// The scalar twin of auxiliary.h: the definition in plain loops, in double. The checker compares with this.

#pragma once

#include <algorithm>

#include "kernels/auxiliary/auxiliary.h"
#include "kernels/mlp_scalar.h"

namespace ctrlab::scalar {

inline void Auxiliary(const AuxiliaryInput& input, float* loss, const AuxiliaryGradient& out) {
  const int64_t H = input.hidden, C = input.width, N = input.splits[input.rows];
  Doubles d_h(N * H), d_clicked(N * C), d_skipped(N * C);
  std::vector<DoubleGradient> layers = ZeroGradients(input.layers, input.layer_count);
  double sum = 0, positions = 0;
  for (int64_t b = 0; b < input.rows; ++b) positions += std::max<int64_t>(0, input.splits[b + 1] - input.splits[b] - 1);
  // One logit: sign -1 for what was clicked, 1 for what was not.
  auto logit = [&](int64_t n, const float* e, double sign, double* d_e) {
    Doubles x(input.interests + n * H, input.interests + (n + 1) * H);
    x.insert(x.end(), e, e + C);
    const std::vector<Doubles> outputs = Mlp(input.layers, input.layer_count, x);
    const double z = sign * outputs.back()[0];
    sum += (std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)))) / positions;
    const double d = sign / (1 + std::exp(-z)) / positions;
    const Doubles dx = MlpGradient(input.layers, input.layer_count, outputs, d, layers);
    for (int64_t i = 0; i < H; ++i) d_h[n * H + i] += dx[i];
    for (int64_t i = 0; i < C; ++i) d_e[i] += dx[H + i];
  };
  for (int64_t b = 0; b < input.rows; ++b) {
    for (int64_t n = input.splits[b]; n + 1 < input.splits[b + 1]; ++n) {
      logit(n, input.clicked + (n + 1) * C, -1, &d_clicked[(n + 1) * C]);
      logit(n, input.skipped + (n + 1) * C, 1, &d_skipped[(n + 1) * C]);
    }
  }
  *loss = static_cast<float>(sum);
  std::copy(d_h.begin(), d_h.end(), out.interests);
  std::copy(d_clicked.begin(), d_clicked.end(), out.clicked);
  std::copy(d_skipped.begin(), d_skipped.end(), out.skipped);
  for (int64_t l = 0; l < input.layer_count; ++l) {
    std::copy(layers[l].kernel.begin(), layers[l].kernel.end(), out.layers[l].kernel);
    std::copy(layers[l].bias.begin(), layers[l].bias.end(), out.layers[l].bias);
  }
}

}  // namespace ctrlab::scalar
