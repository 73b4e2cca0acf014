// The options of an embedding variable's table.

#pragma once

#include <cstdint>

#include "kernels/lookup/row_format.h"

namespace ctrlab::embedding {

enum class InitialKind : int64_t { kConstant = 0, kUniform = 1, kNormal = 2, kTruncatedNormal = 3 };

// The initial value of a key: a function of seed, key and position in the row, and of nothing else.
//   constant          a
//   uniform           in [a, b)
//   normal            mean a, standard deviation b
//   truncated normal  the same, restricted to two deviations from the mean
struct Initializer {
  InitialKind kind = InitialKind::kConstant;
  double a = 0, b = 0;
  uint64_t seed = 0;
};

enum class AdmissionKind : int64_t { kAll = 0, kCounter = 1, kBloom = 2 };

// A key gets a row at its `threshold`-th occurrence in training.
struct Admission {
  AdmissionKind kind = AdmissionKind::kAll;
  int64_t threshold = 1;
  int64_t expected_keys = 0;       // bloom: number of distinct keys that it is sized for
  double false_positive_rate = 0;  // bloom: after that many keys, the fraction of keys that never came whose count is not 0
};

struct TableOptions {
  int64_t dim = 0;  // D; of a table with packed rows: the words of a row
  Initializer initializer;
  Admission admission;
  // The rows' format; a packed one is only for rows that are imported and looked up. Everything but lookups treats a packed row
  // as `dim` floats and never computes with them.
  RowFormat format = RowFormat::kFloat32;
  int64_t numbers = 0;  // D of packed rows
};

}  // namespace ctrlab::embedding
