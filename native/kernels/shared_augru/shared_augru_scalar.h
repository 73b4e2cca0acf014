// The scalar twin of shared_augru.h: the GRU's twin, on a copy of the history per candidate.

#pragma once

#include <vector>

#include "kernels/gru/gru_scalar.h"
#include "kernels/shared_augru/shared_augru.h"

namespace ctrlab::scalar {

inline void SharedAugru(const SharedAugruInput& input, float* last) {
  const int64_t C = input.inputs, H = input.hidden;
  std::vector<float> x;
  std::vector<int64_t> splits{0};
  for (int64_t u = 0; u < input.users; ++u) {
    for (int64_t i = 0; i < input.candidates[u]; ++i) {
      x.insert(x.end(), input.x + input.splits[u] * C, input.x + input.splits[u + 1] * C);
      splits.push_back(splits.back() + input.splits[u + 1] - input.splits[u]);
    }
  }
  const GruInput copied = {x.data(),
                           splits.data(),
                           input.gates_kernel,
                           input.gates_bias,
                           input.candidate_kernel,
                           input.candidate_bias,
                           input.attention,
                           std::ssize(splits) - 1,
                           C,
                           H};
  std::vector<float> outputs(splits.back() * H), gates(splits.back() * 3 * H);
  Gru(copied, outputs.data(), last, gates.data());
}

}  // namespace ctrlab::scalar
