// DIN's activation unit for many candidates over one history each user: a user's queries share its keys.
//
//   s_in = MLP([q_i, k_n, q_i - k_n, q_i * k_n])      for each candidate i and event n of its user: a pair
//   a_in = exp(s_in) / sum over the user's events of exp(s_i)
//   attended_i = sum over the user's events of a_in k_n
//
// Shapes: U users, E = splits[U] events, N candidates, P pairs, C numbers per event. The candidates of a user are consecutive, and
// so are the pairs of a candidate. A candidate of a user without events has attended 0. The caller has checked splits, candidates
// and layers.

#pragma once

#include "kernels/mlp.h"

namespace ctrlab {

struct SharedAttentionInput {
  const float* query;         // [N, C]
  const float* keys;          // [E, C]
  const int64_t* splits;      // [U + 1]
  const int64_t* candidates;  // [U], the number of each user's; they sum to N
  int64_t users, width;       // U, C
  const DenseLayer* layers;   // the first takes 4 C numbers, the last gives 1
  int64_t layer_count;
};

}  // namespace ctrlab

// weights [P], attended [N, C]; uninitialised on entry.
CTRLAB_EXPORT void ctrlab_shared_attention(const ctrlab::SharedAttentionInput* input, float* weights, float* attended,
                                           const ctrlab::ParallelFor* parallel_for);
