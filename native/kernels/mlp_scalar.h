// The scalar twin of an MLP: one position at a time, in double.

#pragma once

#include <cmath>
#include <vector>

#include "kernels/mlp.h"

namespace ctrlab::scalar {

using Doubles = std::vector<double>;

// The output of every layer for one input, which comes first. The last layer has no sigmoid.
inline std::vector<Doubles> Mlp(const DenseLayer* layers, int64_t count, Doubles input) {
  std::vector<Doubles> outputs = {std::move(input)};
  for (int64_t l = 0; l < count; ++l) {
    Doubles sums(layers[l].bias, layers[l].bias + layers[l].out);
    for (int64_t i = 0; i < layers[l].in; ++i) {
      for (int64_t o = 0; o < layers[l].out; ++o) sums[o] += outputs[l][i] * layers[l].kernel[i * layers[l].out + o];
    }
    if (l + 1 < count) {
      for (double& x : sums) x = 1 / (1 + std::exp(-x));
    }
    outputs.push_back(std::move(sums));
  }
  return outputs;
}

// A layer's gradient in double.
struct DoubleGradient {
  Doubles kernel, bias;
};

inline std::vector<DoubleGradient> ZeroGradients(const DenseLayer* layers, int64_t count) {
  std::vector<DoubleGradient> gradients;
  for (int64_t l = 0; l < count; ++l) gradients.push_back({Doubles(layers[l].in * layers[l].out), Doubles(layers[l].out)});
  return gradients;
}

// d: the gradient of the last layer's one output. Adds to `gradients`, returns the gradient of the input.
inline Doubles MlpGradient(const DenseLayer* layers, int64_t count, const std::vector<Doubles>& outputs, double d,
                           std::vector<DoubleGradient>& gradients) {
  Doubles above = {d};
  for (int64_t l = count - 1; l >= 0; --l) {
    Doubles below(layers[l].in, 0.0);
    for (int64_t i = 0; i < layers[l].in; ++i) {
      for (int64_t o = 0; o < layers[l].out; ++o) {
        below[i] += above[o] * layers[l].kernel[i * layers[l].out + o];
        gradients[l].kernel[i * layers[l].out + o] += outputs[l][i] * above[o];
      }
      if (l > 0) below[i] *= outputs[l][i] * (1 - outputs[l][i]);
    }
    for (int64_t o = 0; o < layers[l].out; ++o) gradients[l].bias[o] += above[o];
    above = std::move(below);
  }
  return above;
}

}  // namespace ctrlab::scalar
