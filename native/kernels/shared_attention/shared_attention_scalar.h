// The scalar twin of shared_attention.h: attention's twin, on a copy of the history per candidate.

#pragma once

#include <vector>

#include "kernels/attention/attention_scalar.h"
#include "kernels/shared_attention/shared_attention.h"

namespace ctrlab::scalar {

inline void SharedAttention(const SharedAttentionInput& input, float* weights, float* attended) {
  const int64_t C = input.width;
  std::vector<float> keys;
  std::vector<int64_t> splits{0};
  for (int64_t u = 0; u < input.users; ++u) {
    for (int64_t i = 0; i < input.candidates[u]; ++i) {
      keys.insert(keys.end(), input.keys + input.splits[u] * C, input.keys + input.splits[u + 1] * C);
      splits.push_back(splits.back() + input.splits[u + 1] - input.splits[u]);
    }
  }
  const AttentionInput copied = {input.query, keys.data(),  splits.data(),    std::ssize(splits) - 1,
                                 C,           input.layers, input.layer_count};
  std::vector<float> scores(splits.back()), kept(splits.back() * Kept(input.layers, input.layer_count));
  AttentionScores(copied, scores.data(), kept.data());
  AttentionPool(copied, scores.data(), weights, attended);
}

}  // namespace ctrlab::scalar
