// Feature interactions of concatenated embeddings: DeepFM's factorization machine and DLRM's dot products.
//
//   factorization machine   out[b, d] = 1/2 ((sum over f of v[b, f, d])^2 - sum over f of v[b, f, d]^2)
//   dot interaction         out[b] = (u[b, 0] if there is a bottom, then u[b, i] . u[b, j] for i = 1, 2, ..., for j = 0 to i - 1)
//
// Shapes: B rows, F fields, D the embedding dimension. v is [B, F * D]. u is v preceded by the bottom vector: U = F + 1 vectors,
// or U = F without a bottom; P = U (U - 1) / 2 pairs.

#pragma once

#include "kernels/abi.h"

namespace ctrlab {

struct InteractionInput {
  const float* bottom;  // [B, D]; null without a bottom, as for the factorization machine
  const float* fields;  // [B, F * D]
  int64_t rows;         // B
  int64_t field_count;  // F
  int64_t dim;          // D
};

// Vector i's products with earlier vectors start at PairCount(i).
inline int64_t PairCount(int64_t vectors) { return vectors * (vectors - 1) / 2; }

}  // namespace ctrlab

// out [B, D], uninitialised on entry, like all outputs here.
CTRLAB_EXPORT void ctrlab_factorization_machine(const ctrlab::InteractionInput* input, float* out,
                                                const ctrlab::ParallelFor* parallel_for);

// d_out [B, D] -> d_fields [B, F * D].
CTRLAB_EXPORT void ctrlab_factorization_machine_gradient(const ctrlab::InteractionInput* input, const float* d_out,
                                                         float* d_fields, const ctrlab::ParallelFor* parallel_for);

// out [B, D + P] with a bottom, [B, P] without.
CTRLAB_EXPORT void ctrlab_dot_interaction(const ctrlab::InteractionInput* input, float* out,
                                          const ctrlab::ParallelFor* parallel_for);

// d_out in the shape of out -> d_bottom [B, D], null without a bottom, and d_fields [B, F * D].
CTRLAB_EXPORT void ctrlab_dot_interaction_gradient(const ctrlab::InteractionInput* input, const float* d_out, float* d_bottom,
                                                   float* d_fields, const ctrlab::ParallelFor* parallel_for);
