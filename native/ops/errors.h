// How a binding rejects an input: the rule, what was received, and where.

#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ctrlab {

template <class... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

}  // namespace ctrlab
