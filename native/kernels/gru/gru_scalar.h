// The scalar twins of gru.h: the definition in plain loops, in double. Tests and the checker compare with these.

#pragma once

#include <cmath>
#include <vector>

#include "kernels/gru/gru.h"

namespace ctrlab::scalar {

inline void Gru(const GruInput& input, float* outputs, float* last, float* gates) {
  const int64_t C = input.inputs, H = input.hidden;
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  // The sum over [x, state] times column j of a kernel of `width` columns.
  const auto product = [&](const float* x, const std::vector<double>& state, const float* kernel, int64_t width, int64_t j) {
    double sum = 0;
    for (int64_t k = 0; k < C; ++k) sum += double{x[k]} * kernel[k * width + j];
    for (int64_t k = 0; k < H; ++k) sum += state[k] * kernel[(C + k) * width + j];
    return sum;
  };
  for (int64_t b = 0; b < input.rows; ++b) {
    std::vector<double> h(H, 0.0), r(H), u(H), rh(H), c(H);
    for (int64_t p = input.splits[b]; p < input.splits[b + 1]; ++p) {
      const float* x = input.x + p * C;
      for (int64_t j = 0; j < H; ++j) {
        r[j] = sigmoid(product(x, h, input.gates_kernel, 2 * H, j) + input.gates_bias[j]);
        u[j] = sigmoid(product(x, h, input.gates_kernel, 2 * H, H + j) + input.gates_bias[H + j]);
        rh[j] = r[j] * h[j];
      }
      for (int64_t j = 0; j < H; ++j) c[j] = std::tanh(product(x, rh, input.candidate_kernel, H, j) + input.candidate_bias[j]);
      for (int64_t j = 0; j < H; ++j) {
        gates[p * 3 * H + j] = static_cast<float>(r[j]);
        gates[p * 3 * H + H + j] = static_cast<float>(u[j]);
        gates[p * 3 * H + 2 * H + j] = static_cast<float>(c[j]);
        const double update = input.attention ? (1.0 - input.attention[p]) * u[j] : u[j];
        h[j] = update * h[j] + (1 - update) * c[j];
        outputs[p * H + j] = static_cast<float>(h[j]);
      }
    }
    for (int64_t j = 0; j < H; ++j) last[b * H + j] = static_cast<float>(h[j]);
  }
}

inline void GruGradients(const GruInput& input, const float* outputs, const float* gates, const float* d_outputs,
                         const float* d_last, const GruGradient& gradient) {
  const int64_t C = input.inputs, H = input.hidden, K = C + H;
  std::vector<double> d_gates_kernel(K * 2 * H), d_gates_bias(2 * H), d_candidate_kernel(K * H), d_candidate_bias(H);
  for (int64_t b = 0; b < input.rows; ++b) {
    std::vector<double> dh(d_last + b * H, d_last + (b + 1) * H), d_gates(2 * H), d_candidate(H);
    for (int64_t p = input.splits[b + 1]; p-- > input.splits[b];) {
      const float *x = input.x + p * C, *r = gates + p * 3 * H, *u = r + H, *c = u + H;
      const auto before = [&](int64_t j) { return p > input.splits[b] ? double{outputs[(p - 1) * H + j]} : 0.0; };
      const double kept = input.attention ? 1.0 - input.attention[p] : 1.0;
      std::vector<double> dx(C, 0.0), d_before(H);
      double d_attention = 0;
      for (int64_t j = 0; j < H; ++j) {
        dh[j] += d_outputs[p * H + j];
        const double update = kept * u[j], d_update = dh[j] * (before(j) - c[j]);
        d_candidate[j] = dh[j] * (1 - update) * (1 - double{c[j]} * c[j]);
        d_attention -= d_update * u[j];
        d_gates[H + j] = d_update * kept * u[j] * (1 - double{u[j]});
        d_before[j] = dh[j] * update;
      }
      for (int64_t k = 0; k < H; ++k) {
        double d_rh = 0;
        for (int64_t j = 0; j < H; ++j) d_rh += d_candidate[j] * input.candidate_kernel[(C + k) * H + j];
        d_gates[k] = d_rh * before(k) * r[k] * (1 - double{r[k]});
        d_before[k] += d_rh * r[k];
      }
      for (int64_t k = 0; k < K; ++k) {
        double d = 0;
        const double value = k < C ? double{x[k]} : before(k - C), reset = k < C ? value : value * r[k - C];
        for (int64_t j = 0; j < 2 * H; ++j) {
          d += d_gates[j] * input.gates_kernel[k * 2 * H + j];
          d_gates_kernel[k * 2 * H + j] += value * d_gates[j];
        }
        for (int64_t j = 0; j < H; ++j) {
          if (k < C) d += d_candidate[j] * input.candidate_kernel[k * H + j];
          d_candidate_kernel[k * H + j] += reset * d_candidate[j];
        }
        (k < C ? dx[k] : d_before[k - C]) += d;
      }
      for (int64_t j = 0; j < 2 * H; ++j) d_gates_bias[j] += d_gates[j];
      for (int64_t j = 0; j < H; ++j) d_candidate_bias[j] += d_candidate[j];
      for (int64_t k = 0; k < C; ++k) gradient.x[p * C + k] = static_cast<float>(dx[k]);
      if (gradient.attention) gradient.attention[p] = static_cast<float>(d_attention);
      dh = d_before;
    }
  }
  const auto put = [](const std::vector<double>& from, float* to) {
    for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<float>(from[i]);
  };
  put(d_gates_kernel, gradient.gates_kernel);
  put(d_gates_bias, gradient.gates_bias);
  put(d_candidate_kernel, gradient.candidate_kernel);
  put(d_candidate_bias, gradient.candidate_bias);
}

}  // namespace ctrlab::scalar
