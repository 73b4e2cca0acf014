// The scalar twins of interaction.h: the definition in plain loops, summed in double. Tests and the checker compare with these.

#pragma once

#include <vector>

#include "kernels/interaction/interaction.h"

namespace ctrlab::scalar {

inline void FactorizationMachine(const InteractionInput& input, float* out) {
  const int64_t F = input.field_count, D = input.dim;
  for (int64_t b = 0; b < input.rows; ++b) {
    for (int64_t d = 0; d < D; ++d) {
      double pairs = 0;
      for (int64_t i = 0; i < F; ++i) {
        for (int64_t j = 0; j < i; ++j) {
          pairs += double{input.fields[(b * F + i) * D + d]} * input.fields[(b * F + j) * D + d];
        }
      }
      out[b * D + d] = static_cast<float>(pairs);
    }
  }
}

inline void FactorizationMachineGradient(const InteractionInput& input, const float* d_out, float* d_fields) {
  const int64_t F = input.field_count, D = input.dim;
  for (int64_t b = 0; b < input.rows; ++b) {
    for (int64_t d = 0; d < D; ++d) {
      for (int64_t i = 0; i < F; ++i) {
        double others = 0;
        for (int64_t j = 0; j < F; ++j) {
          if (j != i) others += input.fields[(b * F + j) * D + d];
        }
        d_fields[(b * F + i) * D + d] = static_cast<float>(others * d_out[b * D + d]);
      }
    }
  }
}

// The vectors of row b: the bottom's, then the fields'.
inline std::vector<const float*> VectorsOf(const InteractionInput& input, int64_t b) {
  std::vector<const float*> vectors;
  if (input.bottom) vectors.push_back(input.bottom + b * input.dim);
  for (int64_t f = 0; f < input.field_count; ++f) vectors.push_back(input.fields + (b * input.field_count + f) * input.dim);
  return vectors;
}

inline void DotInteraction(const InteractionInput& input, float* out) {
  for (int64_t b = 0; b < input.rows; ++b) {
    const auto u = VectorsOf(input, b);
    for (int64_t d = 0; input.bottom && d < input.dim; ++d) *out++ = u[0][d];
    for (size_t i = 1; i < u.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        double dot = 0;
        for (int64_t d = 0; d < input.dim; ++d) dot += double{u[i][d]} * u[j][d];
        *out++ = static_cast<float>(dot);
      }
    }
  }
}

inline void DotInteractionGradient(const InteractionInput& input, const float* d_out, float* d_bottom, float* d_fields) {
  const int64_t F = input.field_count, D = input.dim;
  for (int64_t b = 0; b < input.rows; ++b) {
    const auto u = VectorsOf(input, b);
    std::vector<double> sums(u.size() * D, 0.0);
    for (int64_t d = 0; input.bottom && d < D; ++d) sums[d] = *d_out++;
    for (size_t i = 1; i < u.size(); ++i) {
      for (size_t j = 0; j < i; ++j, ++d_out) {
        for (int64_t d = 0; d < D; ++d) {
          sums[i * D + d] += double{*d_out} * u[j][d];
          sums[j * D + d] += double{*d_out} * u[i][d];
        }
      }
    }
    const int64_t bottom = input.bottom ? D : 0;
    for (int64_t d = 0; d < bottom; ++d) d_bottom[b * D + d] = static_cast<float>(sums[d]);
    for (int64_t k = 0; k < F * D; ++k) d_fields[b * F * D + k] = static_cast<float>(sums[bottom + k]);
  }
}

}  // namespace ctrlab::scalar
