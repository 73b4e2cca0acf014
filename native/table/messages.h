// Builds the sentence of a status from parts.

#pragma once

#include <sstream>

#include "store/status.h"

namespace ctrlab::embedding {

template <class... Parts>
Status Problem(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return Status(text.str());
}

inline Status OutOfMemory() noexcept {
  return Status::Constant("The machine's memory does not suffice for the table's rows; nothing was changed.");
}

}  // namespace ctrlab::embedding
