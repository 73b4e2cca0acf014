// The contract between a kernel and its caller. A kernel is plain C++ on pointers and sizes: no TensorFlow, no threads of its
// own.
//
// The interface is C (plain structs, function pointers) with a version. So a kernel that is compiled alone, later, or by another
// compiler can replace ours while the program runs.

#pragma once

#include <atomic>
#include <cstdint>
#include <new>

// Increment this when a struct or a signature in kernels/<op>/<op>.h changes.
#define CTRLAB_ABI_VERSION 1

#define CTRLAB_EXPORT extern "C" __attribute__((visibility("default")))

namespace ctrlab {

// Runs body(begin, end) over pieces that cover [0, total), on the caller's threads. The pieces run in any order and in parallel.
// `cycles` is the cost of one unit; cheap work stays on one thread. A body may throw std::bad_alloc. The exception must not leave
// a pool thread: the calling thread rethrows it when all pieces are done.
struct ParallelFor {
  void* pool;
  void (*run)(void* pool, int64_t total, int64_t cycles, void (*body)(void* context, int64_t begin, int64_t end), void* context);

  template <class Body>
  void operator()(int64_t total, int64_t cycles, const Body& body) const {
    if (total <= 0) return;
    struct Call {
      const Body& body;
      std::atomic<bool> failed = false;
    } call{body};
    auto piece = [](void* context, int64_t begin, int64_t end) {
      Call& call = *static_cast<Call*>(context);
      try {
        call.body(begin, end);
      } catch (const std::bad_alloc&) {
        call.failed = true;
      }
    };
    run(pool, total, cycles, piece, &call);
    if (call.failed) throw std::bad_alloc();
  }
};

// Runs everything on the calling thread.
inline constexpr ParallelFor kAlone{
    nullptr, [](void*, int64_t n, int64_t, void (*body)(void*, int64_t, int64_t), void* context) { body(context, 0, n); }};

}  // namespace ctrlab
