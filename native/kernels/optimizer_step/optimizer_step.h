// One optimizer step on all variables of a model: on the touched rows of a table, or on a whole dense variable.
//
//   sgd         w -= lr g
//   adagrad     a += g^2 ;                     w -= lr g / sqrt(a)
//   ftrl        n' = n + g^2 ; s = (sqrt(n') - sqrt(n)) / lr ; z += g - s w
//               w = 0  where |z| <= l1, else (sign(z) l1 - z) / (sqrt(n') / lr + 2 l2)
//   adam_async  m = b1 m + (1-b1) g ; v = b2 v + (1-b2) g^2 ; w -= lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps)
//
// With clip_norm > 0, g is the variable's gradient times clip_norm / max(its L2 norm, clip_norm).

#pragma once

#include "kernels/abi.h"

namespace ctrlab {

enum StepKind : int64_t { kSgd = 0, kAdagrad = 1, kFtrl = 2, kAdamAsync = 3 };

struct StepRule {
  StepKind kind;
  double beta1, beta2, epsilon;  // adam_async
  double l1, l2;                 // ftrl
  double clip_norm;              // 0: no clipping
  double learning_rate;
  double step;  // t, 1 for the first
};

struct StepVariable {
  float* weights;         // [V, D]
  float* slots[2];        // each like the weights: none (sgd), a (adagrad), n and z (ftrl), m and v (adam_async)
  const int64_t* ids;     // [u], ascending, each once, in [0, V): the rows to change; null: all rows
  const float* gradient;  // [u, D], or [V, D]
  int64_t rows, dim;      // the gradient's shape
};

}  // namespace ctrlab

// Updates weights and slots in place. Bitwise equal results for any number of threads.
CTRLAB_EXPORT void ctrlab_optimizer_step(const ctrlab::StepRule* rule, const ctrlab::StepVariable* variables, int64_t count,
                                         const ctrlab::ParallelFor* parallel_for);
