// Reads and checks the numbers of candidates of an op whose rows share histories.

#pragma once

#include <limits>

#include "ops/errors.h"
#include "tensorflow/core/framework/tensor.h"

namespace ctrlab {

// The number of candidates of all users together, and that of their pairs (a candidate and an event).
struct Shares {
  int64_t rows = 0, pairs = 0;
};

// `candidates` must be one number per user, none below 0. The splits have been checked.
inline absl::Status ReadCandidates(const tensorflow::Tensor& candidates, const tensorflow::Tensor& splits, Shares* shares) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t users = splits.NumElements() - 1;
  if (candidates.dims() != 1 || candidates.dim_size(0) != users) {
    return InvalidArgument("The candidates must be [", users, "], one number per history; received ",
                           candidates.shape().DebugString(), ".");
  }
  const auto counts = candidates.flat<int64_t>(), at = splits.flat<int64_t>();
  for (int64_t u = 0; u < users; ++u) {
    if (counts(u) < 0 || counts(u) > kMost) {
      return InvalidArgument("The number of candidates must be in [0, 2^31); received ", counts(u), " for user ", u, ".");
    }
    const int64_t length = at(u + 1) - at(u);
    if (length > 0 && counts(u) > (std::numeric_limits<int64_t>::max() / 8 - shares->pairs) / length) {
      return InvalidArgument("Pairs of a candidate and an event must number less than 2^60; received ", counts(u),
                             " candidates and ", length, " events for user ", u, ".");
    }
    shares->rows += counts(u);
    shares->pairs += counts(u) * length;
  }
  return absl::OkStatus();
}

}  // namespace ctrlab
