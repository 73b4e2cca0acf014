// Transposes blocks of rows: rows that are consecutive in memory become lanes, one row per lane, and back.
//
// With one row per lane, each weight applies to all rows of the block at once, so widths such as 36 need no padding to 16.

#pragma once

#include <utility>

#include "kernels/simd.h"

namespace ctrlab {

constexpr int64_t kBlockRows = 2 * kLanes;  // two vectors per weight: each loaded weight is used twice

namespace transpose_detail {

// Swaps the off-diagonal quarters of all 2D x 2D squares in a kLanes x kLanes tile. Steps D = 1, 2, 4, 8 transpose it.
template <int D, int... I>
inline void Swap(Vec* v, std::integer_sequence<int, I...>) {
  for (int i = 0; i < kLanes; ++i) {
    if (i & D) continue;
    const Vec a = v[i], b = v[i + D];
    v[i] = __builtin_shufflevector(a, b, ((I & D) ? kLanes + I - D : I)...);
    v[i + D] = __builtin_shufflevector(a, b, ((I & D) ? kLanes + I : I + D)...);
  }
}

inline void Tile(Vec* v) {
  constexpr auto lanes = std::make_integer_sequence<int, kLanes>();
  Swap<1>(v, lanes);
  Swap<2>(v, lanes);
  if constexpr (kLanes > 4) Swap<4>(v, lanes);
  if constexpr (kLanes > 8) Swap<8>(v, lanes);
}

// The columns [0, n) in pieces of a vector; the last piece overlaps the one before it. Only a narrower n is processed column by column.
template <class Piece, class One>
inline void Columns(int64_t n, const Piece& piece, const One& one) {
  if (n < kLanes) {
    for (int64_t c = 0; c < n; ++c) one(c);
    return;
  }
  for (int64_t c = 0; c + kLanes <= n; c += kLanes) piece(c);
  if (n % kLanes) piece(n - kLanes);
}

}  // namespace transpose_detail

// to[c * stride + r] = rows[r][c] for kBlockRows rows and n columns.
inline void RowsToLanes(const float* const* rows, int64_t n, float* to, int64_t stride) {
  for (int64_t r = 0; r < kBlockRows; r += kLanes) {
    transpose_detail::Columns(
        n,
        [&](int64_t c) {
          Vec v[kLanes];
          for (int i = 0; i < kLanes; ++i) v[i] = Load(rows[r + i] + c);
          transpose_detail::Tile(v);
          for (int i = 0; i < kLanes; ++i) Store(to + (c + i) * stride + r, v[i]);
        },
        [&](int64_t c) {
          for (int64_t i = r; i < r + kLanes; ++i) to[c * stride + i] = rows[i][c];
        });
  }
}

// to[0:n] = from[0:n], for rows too short for a call of memcpy.
inline void CopyRow(const float* from, int64_t n, float* to) {
  transpose_detail::Columns(n, [&](int64_t c) { Store(to + c, Load(from + c)); }, [&](int64_t c) { to[c] = from[c]; });
}

// rows[r][c] = from[c * stride + r]
inline void LanesToRows(const float* from, int64_t stride, int64_t n, float* const* rows) {
  for (int64_t r = 0; r < kBlockRows; r += kLanes) {
    transpose_detail::Columns(
        n,
        [&](int64_t c) {
          Vec v[kLanes];
          for (int i = 0; i < kLanes; ++i) v[i] = Load(from + (c + i) * stride + r);
          transpose_detail::Tile(v);
          for (int i = 0; i < kLanes; ++i) Store(rows[r + i] + c, v[i]);
        },
        [&](int64_t c) {
          for (int64_t i = r; i < r + kLanes; ++i) rows[i][c] = from[c * stride + i];
        });
  }
}

}  // namespace ctrlab
