// A multi-layer perceptron as kernels take it: sigmoid after each layer but the last, which gives one number.

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

// What the forward pass keeps of a layer's `out` numbers: they and some padding, so that rows are whole vectors of 16 floats.
inline int64_t KeptOf(const DenseLayer& layer) { return (layer.out + 15) / 16 * 16; }

// How many layers' outputs the forward pass keeps: each sigmoid's, or the numbers themselves where there is no sigmoid.
inline int64_t KeptLayers(int64_t layer_count) { return layer_count > 1 ? layer_count - 1 : 1; }

// How many floats a position the forward pass keeps. They lie layer by layer: layer l's are [N, KeptOf(layer l)].
inline int64_t Kept(const DenseLayer* layers, int64_t layer_count) {
  int64_t floats = 0;
  for (int64_t l = 0; l < KeptLayers(layer_count); ++l) floats += KeptOf(layers[l]);
  return floats;
}

}  // namespace ctrlab
