// DIEN's auxiliary loss over a ragged batch: the interest after an event must tell the next clicked item from one not clicked.
//
//   loss = 1/M sum over events n with a next event of  softplus(-x(h_n, clicked_{n+1})) + softplus(x(h_n, skipped_{n+1}))
//
// where x(h, e) = MLP([h, e]) is the logit that e follows h, and M is the number of such events; with M = 0 the loss is 0.
// Shapes: B rows, N events, H numbers per interest, C numbers per event. Row b has events splits[b] to splits[b + 1] - 1.
// The caller has checked splits and layers; a kernel may trust them.

#pragma once

#include "kernels/mlp.h"

namespace ctrlab {

struct AuxiliaryInput {
  const float* interests;       // [N, H]
  const float* clicked;         // [N, C]
  const float* skipped;         // [N, C]
  const int64_t* splits;        // [B + 1]
  int64_t rows, hidden, width;  // B, H, C
  const DenseLayer* layers;     // the first takes H + C numbers, the last gives 1
  int64_t layer_count;
};

struct AuxiliaryGradient {
  float *interests, *clicked, *skipped;  // [N, H], [N, C], [N, C]
  const DenseGradient* layers;
};

}  // namespace ctrlab

// The loss, a float, and its gradient, in one pass, in which no activation is kept beyond its tile. Outputs are uninitialised on
// entry. Bitwise equal results for any number of threads.
CTRLAB_EXPORT void ctrlab_auxiliary(const ctrlab::AuxiliaryInput* input, float* loss, const ctrlab::AuxiliaryGradient* gradient,
                                    const ctrlab::ParallelFor* parallel_for);
