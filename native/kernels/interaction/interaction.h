// Feature interactions: DeepFM's factorization machine and DLRM's dot products, on embeddings that lie side by side.
//
//   factorization machine   out[b, d] = 1/2 ((sum over f of v[b, f, d])^2 - sum over f of v[b, f, d]^2)
//   dot interaction         out[b] = (u[b, 0] if there is a bottom, then u[b, i] . u[b, j] for i = 1, 2, ..., for j = 0 to i - 1)
//
// Shapes: B rows, F fields, D the embedding dimension. v is [B, F * D]. u is v with the bottom vector, where there is one,
// before its first: U = F + 1 vectors, else U = F; P = U (U - 1) / 2 pairs.

#pragma once

#include "kernels/abi.h"

namespace ctrlab {

struct InteractionInput {
  const float* bottom;  // [B, D]; null: none. The factorization machine has none.
  const float* fields;  // [B, F * D]
  int64_t rows;         // B
  int64_t field_count;  // F
  int64_t dim;          // D
};

// Vector i's products with the vectors below it start at PairCount(i).
inline int64_t PairCount(int64_t vectors) { return vectors * (vectors - 1) / 2; }

}  // namespace ctrlab

// out [B, D] comes uninitialised, as every output here does.
CTRLAB_EXPORT void ctrlab_factorization_machine(const ctrlab::InteractionInput* input, float* out,
                                                const ctrlab::ParallelFor* parallel_for);

// d_out [B, D] -> d_fields [B, F * D].
CTRLAB_EXPORT void ctrlab_factorization_machine_gradient(const ctrlab::InteractionInput* input, const float* d_out,
                                                         float* d_fields, const ctrlab::ParallelFor* parallel_for);

// out [B, D + P] with a bottom, [B, P] without.
CTRLAB_EXPORT void ctrlab_dot_interaction(const ctrlab::InteractionInput* input, float* out,
                                          const ctrlab::ParallelFor* parallel_for);

// d_out like out -> d_bottom [B, D], null without a bottom, and d_fields [B, F * D].
CTRLAB_EXPORT void ctrlab_dot_interaction_gradient(const ctrlab::InteractionInput* input, const float* d_out, float* d_bottom,
                                                   float* d_fields, const ctrlab::ParallelFor* parallel_for);
