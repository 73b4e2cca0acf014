// The snapshot: all threads copy arrays into existing buffers with stores that bypass the caches.
//
// The data is far larger than the caches, and is only read much later, by the thread that writes it to disk.

#pragma once

#include "kernels/abi.h"

namespace ctrlab {

// `to` and `from` must not overlap.
struct CopyPiece {
  const void* from;
  void* to;
  int64_t bytes;
};

}  // namespace ctrlab

// Copies every piece.
CTRLAB_EXPORT void ctrlab_snapshot(const ctrlab::CopyPiece* pieces, int64_t count, const ctrlab::ParallelFor* parallel_for);
