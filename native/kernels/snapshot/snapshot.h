// The snapshot: arrays copied into buffers that are there already, by all threads, past the caches.
//
// What is copied is far larger than a cache and is next read much later, by the thread that writes it to disk.

#pragma once

#include "kernels/abi.h"

namespace ctrlab {

// `to` and `from` do not overlap.
struct CopyPiece {
  const void* from;
  void* to;
  int64_t bytes;
};

}  // namespace ctrlab

// Copies every piece.
CTRLAB_EXPORT void ctrlab_snapshot(const ctrlab::CopyPiece* pieces, int64_t count, const ctrlab::ParallelFor* parallel_for);
