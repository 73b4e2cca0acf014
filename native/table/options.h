// What a table of an embedding variable is made with.

#pragma once

#include <cstdint>

namespace ctrlab::embedding {

enum class InitialKind : int64_t { kConstant = 0, kUniform = 1, kNormal = 2, kTruncatedNormal = 3 };

// The value of a key that was never trained; a function of seed, key and place in the row, and of nothing else.
//   constant          a
//   uniform           in [a, b)
//   normal            mean a, standard deviation b
//   truncated normal  the same, drawn again where it is more than two deviations from the mean
struct Initializer {
  InitialKind kind = InitialKind::kConstant;
  double a = 0, b = 0;
  uint64_t seed = 0;
};

enum class AdmissionKind : int64_t { kAll = 0, kCounter = 1, kBloom = 2 };

// A key gets a row when it has come `threshold` times in training.
struct Admission {
  AdmissionKind kind = AdmissionKind::kAll;
  int64_t threshold = 1;
  int64_t expected_keys = 0;       // bloom: different keys that it is made for
  double false_positive_rate = 0;  // bloom: of keys that never came, the share whose count is not 0 when that many have come
};

struct TableOptions {
  int64_t dim = 0;  // D
  Initializer initializer;
  Admission admission;
};

}  // namespace ctrlab::embedding
