// The scalar twin of snapshot.h: the definition, byte by byte.

#pragma once

#include "kernels/snapshot/snapshot.h"

namespace ctrlab::scalar {

inline void Snapshot(const CopyPiece* pieces, int64_t count) {
  for (int64_t p = 0; p < count; ++p) {
    for (int64_t i = 0; i < pieces[p].bytes; ++i) {
      static_cast<char*>(pieces[p].to)[i] = static_cast<const char*>(pieces[p].from)[i];
    }
  }
}

}  // namespace ctrlab::scalar
