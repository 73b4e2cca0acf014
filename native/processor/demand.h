// The memory that a model takes for the rows of a request.

#pragma once

#include <cstdint>

#include "processor/inputs.h"

namespace ctrlab::processor {

struct Demand {
  static constexpr int64_t kLeast = 1 << 10;
  static constexpr int64_t kOfList = 16;  // values of a list, or of a size that may be any: a guess
  int64_t bytes = 16 << 10;               // that the model's ops allocate for a row: a guess, until it is measured
  double values = 0;                      // that a row has in all inputs together

  // The most that takes so many bytes. A row with more values than the measured ones have takes more, and counts as several.
  Limit In(int64_t most_bytes) const;
};

}  // namespace ctrlab::processor
