// What a call throws, as a sentence: for threads and functions of C, which no exception may leave.

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

// For calls that nobody can be told of.
template <class Call>
void Quietly(const Call& call) noexcept try {
  (void)call();
} catch (const std::exception&) {
}

}  // namespace ctrlab::embedding
