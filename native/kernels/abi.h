// What a kernel and its caller agree on. A kernel is plain C++ on pointers and sizes: no TensorFlow, no threads of its own.
//
// The interface is C (plain structs, function pointers) with a version, so that a kernel compiled alone, later, by another
// compiler, can take the place of ours while the program runs.

#pragma once

#include <cstdint>

// Goes up whenever a struct or a signature in kernels/*.h changes.
#define CTRLAB_ABI_VERSION 1

#define CTRLAB_EXPORT extern "C" __attribute__((visibility("default")))

namespace ctrlab {

// Runs body(begin, end) over pieces that cover [0, total), on whatever threads the caller owns.
// The pieces come in any order and at the same time; `cycles` is what one unit costs, so that cheap work stays on one thread.
struct ParallelFor {
  void* pool;
  void (*run)(void* pool, int64_t total, int64_t cycles, void (*body)(void* context, int64_t begin, int64_t end), void* context);

  template <class Body>
  void operator()(int64_t total, int64_t cycles, const Body& body) const {
    if (total <= 0) return;
    auto call = [](void* context, int64_t begin, int64_t end) { (*static_cast<const Body*>(context))(begin, end); };
    run(pool, total, cycles, call, const_cast<Body*>(&body));
  }
};

}  // namespace ctrlab
