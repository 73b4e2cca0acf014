// A multi-layer perceptron in the form that kernels take: sigmoid after each layer except the last, which has one output.

#pragma once

#include "kernels/abi.h"

namespace ctrlab {

struct DenseLayer {
  const float* kernel;  // [in, out]
  const float* bias;    // [out]
  int64_t in, out;
};

// The same layer's gradient.
struct DenseGradient {
  float* kernel;  // [in, out]
  float* bias;    // [out]
};

// Floats that the forward pass keeps per position for a layer: its `out` numbers, padded to 16 floats, whole vectors of any machine.
inline int64_t KeptOf(const DenseLayer& layer) { return (layer.out + 15) / 16 * 16; }

// Number of layers whose outputs the forward pass keeps: those with a sigmoid, or the output itself without any sigmoid.
inline int64_t KeptLayers(int64_t layer_count) { return layer_count > 1 ? layer_count - 1 : 1; }

// Floats that the forward pass keeps per position. They are stored by layer: layer l's are [N, KeptOf(layer l)].
inline int64_t Kept(const DenseLayer* layers, int64_t layer_count) {
  int64_t floats = 0;
  for (int64_t l = 0; l < KeptLayers(layer_count); ++l) floats += KeptOf(layers[l]);
  return floats;
}

}  // namespace ctrlab
