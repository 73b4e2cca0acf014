// Small matrix products (GEMM), such as a layer's kernel times a tile of positions, on one thread. A tile of the result stays in
// registers during its whole sum. Rows of the right-hand side are padded to whole vectors, so no tile has a ragged edge.

#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/simd.h"

namespace ctrlab {

// An [m, k] matrix, possibly a transposed one: element (i, p) is at data[i * row + p * step].
struct Strided {
  const float* data;
  int64_t row, step;
};

namespace gemm {

#ifdef __AVX512F__
constexpr int kAccumulators = 25, kMostVectors = 5;  // of 32 registers; the others hold a row of b
#else
constexpr int kAccumulators = 12, kMostVectors = 3;  // of 16 registers
#endif
constexpr int kMostRows = 6;

constexpr int RowsFor(int vectors) { return std::clamp(kAccumulators / vectors, 1, kMostRows); }

#define CTRLAB_INLINE __attribute__((always_inline))

// Calls f(0), f(1), ..., f(N - 1), unrolled, so that an array indexed by them can be in registers.
template <int N, class F>
CTRLAB_INLINE inline void Unrolled(const F& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) CTRLAB_INLINE { (f(I), ...); }(std::make_integer_sequence<int, N>());
}

// A right-hand side in memory: a vector of row p, starting at a column.
struct RowsOf {
  const float* data;
  int64_t ld;
  CTRLAB_INLINE Vec operator()(int64_t p, int64_t column) const { return Load(data + p * ld + column); }
};

// sums[R, V vectors] += a[R, k] b[k, V vectors from `column` on]; b(p, column) is called once per vector.
template <int R, int V, class Right>
CTRLAB_INLINE inline void AddProducts(int64_t k, const Strided& a, const Right& b, int64_t column, Vec* sums) {
  const float* x = a.data;
  const int64_t next = a.row, step = a.step;
  Vec row[V];
  for (int64_t p = 0; p < k; ++p, x += step) {
    Unrolled<V>([&](int v) CTRLAB_INLINE {
      row[v] = b(p, column + v * kLanes);
#ifdef __AVX512F__
      asm("" : "+v"(row[v]));  // otherwise gcc loads b again for each of its sums
#endif
    });
    Unrolled<R * V>([&](int i) CTRLAB_INLINE { sums[i] += x[i / V * next] * row[i % V]; });
  }
}

// c[R, V vectors] = or += a[R, k] b[k, V vectors]
template <int R, int V>
struct Tile {
  static void Run(bool add, int64_t k, const Strided& a, const float* b, int64_t ldb, float* c, int64_t ldc) {
    Vec sums[R * V];
    Unrolled<R * V>([&](int i) CTRLAB_INLINE { sums[i] = Vec{}; });
    if (add) Unrolled<R * V>([&](int i) CTRLAB_INLINE { sums[i] = Load(c + i / V * ldc + i % V * kLanes); });
    // Prefetch the memory of c, so that it is in the cache when the sums are done.
    Unrolled<R * V>([&](int i) CTRLAB_INLINE { __builtin_prefetch(c + i / V * ldc + i % V * kLanes, 1); });
    AddProducts<R, V>(k, a, RowsOf{b, ldb}, 0, sums);
    Unrolled<R * V>([&](int i) CTRLAB_INLINE { Store(c + i / V * ldc + i % V * kLanes, sums[i]); });
  }
};

// {Of<1, V>::Run, Of<2, V>::Run, ...}
template <template <int, int> class Of, int V, int... R>
constexpr auto TilesOf(std::integer_sequence<int, R...>) {
  return std::array<decltype(&Of<1, 1>::Run), kMostRows>{&Of<R + 1, V>::Run...};
}

template <template <int, int> class Of, int... V>
constexpr auto AllTiles(std::integer_sequence<int, V...>) {
  return std::array{TilesOf<Of, V + 1>(std::make_integer_sequence<int, RowsFor(V + 1)>())...};
}

// Of<R, V>::Run for every size of a tile, at [V - 1][R - 1].
template <template <int, int> class Of>
constexpr auto kTiles = AllTiles<Of>(std::make_integer_sequence<int, kMostVectors>());

// Splits [m, n] into tiles: body(first row, rows, first column, vectors). The shares are equal, because 6 rows run faster as
// 3 + 3 than as 5 + 1.
template <class Body>
CTRLAB_INLINE inline void ForTiles(int64_t m, int64_t n, const Body& body) {
  const int64_t vectors = n / kLanes, chunks = (vectors + kMostVectors - 1) / kMostVectors;
  for (int64_t i = 0; i < chunks; ++i) {
    const int64_t first = vectors * i / chunks, wide = vectors * (i + 1) / chunks - first;
    const int64_t most = RowsFor(static_cast<int>(wide)), tiles = (m + most - 1) / most;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = m * t / tiles;
      body(row, m * (t + 1) / tiles - row, first * kLanes, wide);
    }
  }
}

}  // namespace gemm

// c[m, n] = a[m, k] b[k, n], or += if `add`; n must be a multiple of kLanes. Each sum runs in the order of p.
inline void Gemm(bool add, int64_t m, int64_t n, int64_t k, const Strided& a, const float* b, int64_t ldb, float* c,
                 int64_t ldc) {
  gemm::ForTiles(m, n, [&](int64_t row, int64_t rows, int64_t column, int64_t wide) {
    const Strided part{a.data + row * a.row, a.row, a.step};
    gemm::kTiles<gemm::Tile>[wide - 1][rows - 1](add, k, part, b + column, ldb, c + row* ldc + column, ldc);
  });
}

// `to` [rows, Padded(columns)] = `from` [rows, columns], padded with zeros.
inline void Pad(const float* from, int64_t rows, int64_t columns, float* to) {
  const int64_t wide = Padded(columns);
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(from + r * columns, columns, to + r * wide);
    std::fill(to + r * wide + columns, to + (r + 1) * wide, 0.0f);
  }
}

// `to` [columns, Padded(rows)] = the first `columns` columns of `from` [rows, ld], transposed and padded with zeros.
inline void PadTransposed(const float* from, int64_t rows, int64_t columns, int64_t ld, float* to) {
  const int64_t wide = Padded(rows);
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) to[c * wide + r] = from[r * ld + c];
    std::fill(to + c * wide + rows, to + (c + 1) * wide, 0.0f);
  }
}

}  // namespace ctrlab
