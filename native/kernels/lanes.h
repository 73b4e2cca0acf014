// Matrix products with one row of a batch per SIMD lane: weights [M, K] times lanes [K][V vectors]. A width such as 36 needs no
// padding to whole vectors, and what all rows share is a splat.

#pragma once

#include <memory>
#include <vector>

#include "kernels/gemm.h"

namespace ctrlab {

#ifdef __AVX512F__
constexpr int kMostLaneVectors = 2;
#else
constexpr int kMostLaneVectors = 1;  // six rows of weights then use each loaded vector of lanes
#endif

// Calls body with V as a constant, the fewest vectors for `lanes` lanes of a block.
template <class Body>
void WithLaneVectors(int64_t lanes, const Body& body) {
  if (kMostLaneVectors > 1 && lanes > kLanes) return body(std::integral_constant<int, kMostLaneVectors>());
  body(std::integral_constant<int, 1>());
}

// A matrix [M, K] that multiplies lane matrices, stored as tiles of rows in the order of their use.
class LaneWeights {
 public:
  // From its transpose, a layer's kernel: M columns of `kernel` [K, ld].
  LaneWeights(int64_t M, int64_t K, const float* kernel, int64_t ld)
      : M_(M), K_(K), tiles_((M + kTile - 1) / kTile), values_(M * K) {
    float* to = values_.data();
    for (int64_t t = 0; t < tiles_; ++t) {
      for (int64_t k = 0; k < K; ++k) {
        to = std::copy(kernel + k * ld + First(t), kernel + k * ld + First(t + 1), to);
      }
    }
  }

  // to [M][V vectors] = start(row, vector) + this [M, K] times lanes [K][V vectors]
  template <int V, class Start>
  void Times(const float* lanes, const Start& start, float* to) const {
    for (int64_t t = 0; t < tiles_; ++t) {
      const int64_t row = First(t);
      kRuns<V, Start>[First(t + 1) - row - 1](K_, values_.data() + row* K_, lanes, start, row, to + row* V* kLanes);
    }
  }

 private:
  static constexpr int kTile = gemm::kAccumulators / kMostLaneVectors;

  int64_t First(int64_t tile) const { return M_ * tile / tiles_; }

  template <int R, int V, class Start>
  static void Run(int64_t K, const float* tile, const float* lanes, const Start& start, int64_t row, float* to) {
    Vec sums[R * V];
    gemm::Unrolled<R * V>([&](int i) CTRLAB_INLINE { sums[i] = start(row + i / V, i % V); });
    gemm::AddProducts<R, V>(K, {tile, 1, R}, gemm::RowsOf{lanes, V * kLanes}, 0, sums);
    gemm::Unrolled<R * V>([&](int i) CTRLAB_INLINE { Store(to + i * kLanes, sums[i]); });
  }

  template <int V, class Start, int... R>
  static constexpr auto RunsOf(std::integer_sequence<int, R...>) {
    return std::array{&Run<R + 1, V, Start>...};
  }
  template <int V, class Start>
  static constexpr auto kRuns = RunsOf<V, Start>(std::make_integer_sequence<int, kTile>());

  int64_t M_, K_, tiles_;
  std::vector<float> values_;
};

// lanes [n][V vectors] = rows [count, n], transposed, zeros in the lanes beyond.
template <int V>
void ToLanes(const float* rows, int64_t count, int64_t n, float* lanes) {
  std::fill_n(lanes, n * V * kLanes, 0.0f);
  for (int64_t l = 0; l < count; ++l) {
    for (int64_t c = 0; c < n; ++c) lanes[c * V * kLanes + l] = rows[l * n + c];
  }
}

// Scratch floats, cut into pieces aligned to cache lines. The calling thread allocates them, because pool threads allocate
// nothing.
class LaneScratch {
 public:
  LaneScratch(int64_t groups, int64_t floats_each)
      : each_((floats_each + 15) / 16 * 16), values_(new float[groups * each_ + 16]) {
    const auto address = reinterpret_cast<uintptr_t>(values_.get());
    start_ = reinterpret_cast<float*>((address + 63) / 64 * 64);
  }
  float* of(int64_t group) const { return start_ + group * each_; }

 private:
  int64_t each_;
  std::unique_ptr<float[]> values_;
  float* start_;
};

}  // namespace ctrlab
