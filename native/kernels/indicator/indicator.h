// The indicator column: the product of a multi-hot matrix and a kernel, without the multi-hot matrix.
//
//   out[b, o] = sum over columns c, over the ids i of row b in c:  weight_i * kernel[offset_c + i, o]
//
// Shapes: C columns, B rows, O outputs, V = sum of the columns' sizes. The id -1 is "unknown" and contributes nothing.
// The caller has checked every id and every split; a kernel may trust them.

#pragma once

#include "kernels/abi.h"

namespace ctrlab {

struct IdColumn {
  const int64_t* ids;     // [n], each in [-1, size)
  const int64_t* splits;  // [B + 1]: row b has ids[splits[b]] to ids[splits[b + 1] - 1]; null: row b has only ids[b]
  const float* weights;   // [n]; null: every weight is 1
  int64_t offset;         // the kernel row of this column's id 0
  int64_t size;           // number of kernel rows of this column
};

struct IndicatorInput {
  const IdColumn* columns;  // [C]
  int64_t column_count;     // C
  int64_t rows;             // B, below 2^31
  int64_t outputs;          // O
};

}  // namespace ctrlab

// kernel [V, O] -> out [B, O], uninitialised on entry.
CTRLAB_EXPORT void ctrlab_indicator(const ctrlab::IndicatorInput* input, const float* kernel, float* out,
                                    const ctrlab::ParallelFor* parallel_for);

// d_out [B, O] -> d_kernel [V, O], uninitialised on entry. Each sum runs in row order: bitwise equal for any number of threads.
CTRLAB_EXPORT void ctrlab_indicator_gradient(const ctrlab::IndicatorInput* input, const float* d_out, float* d_kernel,
                                             const ctrlab::ParallelFor* parallel_for);

// d_weights[c] [n_c], uninitialised on entry; 0 if the id is -1.
CTRLAB_EXPORT void ctrlab_indicator_weights_gradient(const ctrlab::IndicatorInput* input, const float* kernel, const float* d_out,
                                                     float* const* d_weights, const ctrlab::ParallelFor* parallel_for);
