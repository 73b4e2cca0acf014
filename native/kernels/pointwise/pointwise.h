// The pointwise ops between two products of a tower: bias and activation, or a learned affine map.
//
//   kRelu     out = max(x + shift, 0)
//   kPrelu    p = x + shift;  out = p > 0 ? p : slope * p
//   kAffine   out = slope * x + shift
//
// Shapes: B rows, n columns; shift and slope are [n].

#pragma once

#include "kernels/abi.h"

namespace ctrlab {

enum PointwiseKind : int32_t { kRelu, kPrelu, kAffine };

struct PointwiseInput {
  const float* x;      // [B, n]
  const float* shift;  // [n]
  const float* slope;  // [n]; null if the kind has no slope
  int64_t rows, columns;
  int32_t kind;
};

struct PointwiseGradient {
  float* d_x;                // [B, n]; may be d_out's own buffer
  float *d_shift, *d_slope;  // [n]; d_slope is null if the kind has no slope
};

}  // namespace ctrlab

// Outputs are uninitialised on entry, here and below; `out` may be x's own buffer.
CTRLAB_EXPORT void ctrlab_pointwise(const ctrlab::PointwiseInput* input, float* out, const ctrlab::ParallelFor* parallel_for);

// Reads `out` for kRelu, input->x for kPrelu and kAffine; the other may be null.
// Each sum runs in row order: bitwise equal results for any number of threads.
CTRLAB_EXPORT void ctrlab_pointwise_gradient(const ctrlab::PointwiseInput* input, const float* out, const float* d_out,
                                             const ctrlab::PointwiseGradient* gradient, const ctrlab::ParallelFor* parallel_for);
