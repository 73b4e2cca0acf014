// Turns exceptions of a call into a sentence, for threads and C functions, which no exception may leave.

#pragma once

#include <exception>
#include <new>

#include "store/status.h"

namespace ctrlab::embedding {

template <class Call>
Status NoThrow(const Call& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Status::Constant("There is not enough memory for the store.");
  } catch (const std::exception& error) {
    return Status(std::string("The store failed: ") + error.what() + ".");
  }
}

// For calls that have no way to report an error.
template <class Call>
void Quietly(const Call& call) noexcept try {
  (void)call();
} catch (const std::exception&) {
}

}  // namespace ctrlab::embedding
