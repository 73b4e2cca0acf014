// The scalar twins of experts.h: the definition in plain loops, summed in double. Tests and the checker compare with these.

#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/experts/experts.h"

namespace ctrlab::scalar {

inline void Experts(const ExpertsInput& in, float* const* hidden) {
  for (int64_t l = 0; l < in.layers; ++l) {
    const int64_t k = in.sizes[l], n = in.sizes[l + 1];
    for (int64_t e = 0; e < in.experts; ++e) {
      const float* x = l ? hidden[l - 1] + e * in.rows * k : in.x;
      for (int64_t b = 0; b < in.rows; ++b) {
        for (int64_t o = 0; o < n; ++o) {
          double sum = in.biases[l][e * n + o];
          for (int64_t i = 0; i < k; ++i) sum += double{x[b * k + i]} * in.kernels[l][(e * k + i) * n + o];
          hidden[l][(e * in.rows + b) * n + o] = static_cast<float>(std::max(sum, 0.0));
        }
      }
    }
  }
}

inline void ExpertsGradient(const ExpertsInput& in, const float* const* hidden, const float* d_out, float* d_x,
                            float* const* d_kernels, float* const* d_biases) {
  std::vector<double> d_first(in.rows * in.sizes[0], 0.0);
  for (int64_t e = 0; e < in.experts; ++e) {
    const float* own = d_out + e * in.rows * in.sizes[in.layers];
    std::vector<double> d_y(own, own + in.rows * in.sizes[in.layers]);
    for (int64_t l = in.layers - 1; l >= 0; --l) {
      const int64_t k = in.sizes[l], n = in.sizes[l + 1];
      const float *x = l ? hidden[l - 1] + e * in.rows * k : in.x, *y = hidden[l] + e * in.rows * n;
      std::vector<double> d_input(in.rows * k, 0.0), d_kernel(k * n, 0.0), d_bias(n, 0.0);
      for (int64_t b = 0; b < in.rows; ++b) {
        for (int64_t o = 0; o < n; ++o) {
          const double d = y[b * n + o] > 0 ? d_y[b * n + o] : 0.0;
          d_bias[o] += d;
          for (int64_t i = 0; i < k; ++i) {
            d_kernel[i * n + o] += d * x[b * k + i];
            d_input[b * k + i] += d * in.kernels[l][(e * k + i) * n + o];
          }
        }
      }
      std::copy(d_kernel.begin(), d_kernel.end(), d_kernels[l] + e * k * n);
      std::copy(d_bias.begin(), d_bias.end(), d_biases[l] + e * n);
      d_y = d_input;
    }
    for (size_t i = 0; i < d_first.size(); ++i) d_first[i] += d_y[i];
  }
  std::copy(d_first.begin(), d_first.end(), d_x);
}

inline void Mixture(const MixtureInput& in, float* gates, float* out) {
  const int64_t E = in.expert_count, K = in.tasks, H = in.width;
  for (int64_t b = 0; b < in.rows; ++b) {
    for (int64_t k = 0; k < K; ++k) {
      const float* z = in.logits + (b * K + k) * E;
      double sum = 0;
      for (int64_t e = 0; e < E; ++e) sum += std::exp(double{z[e]} - *std::max_element(z, z + E));
      for (int64_t h = 0; h < H; ++h) {
        double mixed = 0;
        for (int64_t e = 0; e < E; ++e) {
          const double gate = std::exp(double{z[e]} - *std::max_element(z, z + E)) / sum;
          gates[(b * K + k) * E + e] = static_cast<float>(gate);
          mixed += gate * in.experts[(e * in.rows + b) * H + h];
        }
        out[(k * in.rows + b) * H + h] = static_cast<float>(mixed);
      }
    }
  }
}

inline void MixtureGradient(const MixtureInput& in, const float* gates, const float* d_out, float* d_experts, float* d_logits) {
  const int64_t B = in.rows, E = in.expert_count, K = in.tasks, H = in.width;
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t e = 0; e < E; ++e) {
      for (int64_t h = 0; h < H; ++h) {
        double sum = 0;
        for (int64_t k = 0; k < K; ++k) sum += double{gates[(b * K + k) * E + e]} * d_out[(k * B + b) * H + h];
        d_experts[(e * B + b) * H + h] = static_cast<float>(sum);
      }
    }
    for (int64_t k = 0; k < K; ++k) {
      const float* gate = gates + (b * K + k) * E;
      std::vector<double> d_gate(E, 0.0);
      double mean = 0;
      for (int64_t e = 0; e < E; ++e) {
        for (int64_t h = 0; h < H; ++h) d_gate[e] += double{in.experts[(e * B + b) * H + h]} * d_out[(k * B + b) * H + h];
        mean += gate[e] * d_gate[e];
      }
      for (int64_t e = 0; e < E; ++e) d_logits[(b * K + k) * E + e] = static_cast<float>(gate[e] * (d_gate[e] - mean));
    }
  }
}

}  // namespace ctrlab::scalar
