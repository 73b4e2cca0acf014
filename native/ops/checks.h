// The checks of splits and ids in all bindings. Kernels trust their input because of them.

#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "ops/errors.h"
#include "tensorflow/core/framework/tensor.h"

namespace ctrlab {

// Splits must be 0 = s[0] <= s[1] <= ... <= s[B] = count. `what` names their owner: "column 3".
inline absl::Status CheckSplits(std::string_view what, const tensorflow::Tensor& splits, int64_t count) {
  if (!tensorflow::TensorShapeUtils::IsVector(splits.shape()) || splits.NumElements() == 0) {
    return InvalidArgument("The splits of ", what, " must be a vector of one more than its rows; received ",
                           splits.shape().DebugString(), ".");
  }
  const auto s = splits.flat<int64_t>();
  const int64_t last = s.size() - 1;
  if (s(0) != 0) return InvalidArgument("The splits of ", what, " must start at 0; received ", s(0), ".");
  for (int64_t b = 0; b < last; ++b) {
    if (s(b + 1) < s(b)) {
      return InvalidArgument("The splits of ", what, " must not go down; received ", s(b + 1), " after ", s(b), " in row ", b,
                             ".");
    }
  }
  if (s(last) != count) {
    return InvalidArgument("The splits of ", what, " must end at its ", count, " ids; received ", s(last), ".");
  }
  return absl::OkStatus();
}

// Ids must be -1 (unknown) or in [0, size); `splits` [B + 1] is null if each row has one id.
inline absl::Status CheckIds(std::string_view what, const int64_t* ids, const int64_t* splits, int64_t count, int64_t size) {
  // One pass without branches; only if it finds a bad id, a second pass searches its position.
  uint64_t bad = 0;
  for (int64_t i = 0; i < count; ++i) bad |= static_cast<uint64_t>(ids[i]) + 1 > static_cast<uint64_t>(size);
  if (!bad) return absl::OkStatus();
  int64_t i = 0, row = 0;
  while (static_cast<uint64_t>(ids[i]) + 1 <= static_cast<uint64_t>(size)) ++i;
  if (splits) {
    while (splits[row + 1] <= i) ++row;
  } else {
    row = i;
  }
  return InvalidArgument("The ids of ", what, " must be -1 (unknown) or in [0, ", size, "); received ", ids[i], " in row ", row,
                         ".");
}

// `what` names the tensor: "d_out". The sizes are not a TensorShape: constructing one whose product overflows aborts the process.
inline absl::Status CheckShape(std::string_view what, const tensorflow::Tensor& tensor, absl::Span<const int64_t> sizes) {
  const auto received = tensor.shape().dim_sizes();
  if (std::equal(received.begin(), received.end(), sizes.begin(), sizes.end())) return absl::OkStatus();
  return InvalidArgument(what, " must be [", absl::StrJoin(sizes, ","), "]; received ", tensor.shape().DebugString(), ".");
}

inline absl::Status CheckShape(std::string_view what, const tensorflow::Tensor& tensor, std::initializer_list<int64_t> sizes) {
  return CheckShape(what, tensor, absl::Span<const int64_t>(sizes.begin(), sizes.size()));
}

inline absl::Status CheckShape(std::string_view what, const tensorflow::Tensor& tensor, const tensorflow::TensorShape& shape) {
  return CheckShape(what, tensor, absl::Span<const int64_t>(shape.dim_sizes()));
}

inline absl::Status CheckMatrix(std::string_view what, const tensorflow::Tensor& tensor) {
  if (tensorflow::TensorShapeUtils::IsMatrix(tensor.shape())) return absl::OkStatus();
  return InvalidArgument(what, " must be a matrix, [rows, columns]; received ", tensor.shape().DebugString(), ".");
}

}  // namespace ctrlab
