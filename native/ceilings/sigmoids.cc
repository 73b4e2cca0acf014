// How many sigmoids a core computes at most: numbers in its first cache, and nothing between them. ctrlab/profiling/roofline.py
// times it.

#include "kernels/abi.h"
#include "kernels/simd.h"
#include "kernels/simd_math.h"

namespace ctrlab {
namespace {

template <class Function>
void Repeat(float* x, int64_t n, int64_t times, const Function& function) {
  for (int64_t t = 0; t < times; ++t) {
    for (int64_t i = 0; i < n; i += kLanes) Store(x + i, function(Load(x + i)));
  }
}

}  // namespace
}  // namespace ctrlab

// x [n] = f(x), `times` times; n is a multiple of 16.
CTRLAB_EXPORT void ctrlab_sigmoids(float* x, int64_t n, int64_t times) {
  ctrlab::Repeat(x, n, times, [](const ctrlab::Vec& v) { return ctrlab::Sigmoid(v); });
}
CTRLAB_EXPORT void ctrlab_tanhs(float* x, int64_t n, int64_t times) {
  ctrlab::Repeat(x, n, times, [](const ctrlab::Vec& v) { return ctrlab::Tanh(v); });
}
