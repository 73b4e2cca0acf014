// An AUGRU of many candidates over one history each user: the rows of a user share x, not the attention.
//
//   r, u = sigmoid([x, h] W_g + b_g)      c = tanh([x, r * h] W_c + b_c)
//   u' = (1 - a) u                        h <- u' h + (1 - u') c
//
// Shapes: U users, E = splits[U] events, N candidates, P pairs of a candidate and an event of its user, C inputs, H hidden. The
// candidates of a user are consecutive, and so are the pairs of a candidate. All matrices are row-major. The caller has checked
// splits and candidates.

#pragma once

#include "kernels/abi.h"

namespace ctrlab {

struct SharedAugruInput {
  const float* x;                 // [E, C]
  const int64_t* splits;          // [U + 1]
  const int64_t* candidates;      // [U], the number of each user's; they sum to N
  const float* gates_kernel;      // [C + H, 2H], the reset gate's columns, then the update gate's
  const float* gates_bias;        // [2H]
  const float* candidate_kernel;  // [C + H, H]
  const float* candidate_bias;    // [H]
  const float* attention;         // [P]
  int64_t users;                  // U
  int64_t inputs;                 // C, at least 1
  int64_t hidden;                 // H, at least 1
};

}  // namespace ctrlab

// last [N, H]: the state after the history's last event, zeros for an empty history; uninitialised on entry.
CTRLAB_EXPORT void ctrlab_shared_augru(const ctrlab::SharedAugruInput* input, float* last,
                                       const ctrlab::ParallelFor* parallel_for);
