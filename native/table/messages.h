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

// Whether this, or a sentence with this in it, was the problem: it may pass.
inline bool IsOutOfMemory(const Status& status) { return status.problem().find(OutOfMemory().text()) != std::string::npos; }

}  // namespace ctrlab::embedding
