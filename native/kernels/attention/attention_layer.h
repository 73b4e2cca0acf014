// The first layer of ragged attention. Its kernel has four parts, W = [Wq; Wk; Wd; Wp], and
//
//   [q, k, q - k, q * k] W = q (Wq + Wd) + k (Wk - Wd + diag(q) Wp)
//
// so each row needs one [C, units] matrix, and each of its events needs one product with that matrix instead of a [4 C] vector's.
//
// If q and k are far from 0 and close to each other, q Wd - k Wd cancels. The error matters in a unit with |Wd| > |Wq| + |Wk|. If
// the layer has such a unit, rows with an event where |k - q| < |k| / 2 use the same matrix on e = k - q, which has only one
// rounding, and add the difference to the row's own side:
//
//   [q, k, q - k, q * k] W = q (Wq + Wk + diag(q) Wp) + e (Wk - Wd + diag(q) Wp)
//
// Without a near event |k| is at most 2 |q - k|, and |q| at most 3 |q - k|. With one, |q| is 1/2 to 3/2 of that event's |k|. So
// the error of a unit's sum is at most 6 times the bound for a product with the [4 C] vector, taken for the row's worst event:
// C 2^-24 (|q| |Wq| + |k| |Wk| + |q - k| |Wd| + |q| |k| |Wp|).

#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/sigmoid_stack.h"

namespace ctrlab {

// The first layer, split into its parts.
struct FirstLayer {
  int64_t in, out, wide, tall;                    // C, units, and both padded
  std::vector<float> query, keys, cross, shared;  // Wq + Wd, Wk - Wd, Wp, Wq + Wk: [C, wide]
  bool cancels;                                   // whether a unit has |Wd| > |Wq| + |Wk|

  FirstLayer(const DenseLayer& layer, int64_t width) : in(width), out(layer.out), wide(Padded(out)), tall(Padded(in)) {
    for (auto* part : {&query, &keys, &cross, &shared}) part->assign(in * wide, 0.0f);
    const float *q = layer.kernel, *k = q + in * out, *d = k + in * out, *p = d + in * out;
    for (int64_t c = 0; c < in; ++c) {
      for (int64_t u = 0; u < out; ++u) {
        const int64_t from = c * out + u, to = c * wide + u;
        query[to] = q[from] + d[from];
        keys[to] = k[from] - d[from];
        cross[to] = p[from];
        shared[to] = q[from] + k[from];
      }
    }
    const auto size = [&](const float* part, int64_t u) {
      double squares = 0;
      for (int64_t c = 0; c < in; ++c) squares += double{part[c * out + u]} * part[c * out + u];
      return std::sqrt(squares);
    };
    cancels = false;
    for (int64_t u = 0; u < out; ++u) cancels |= size(d, u) > size(q, u) + size(k, u);
  }

  // Whether a row must be expanded around its query.
  bool HasNear(const float* q, const float* keys, int64_t events) const {
    if (!cancels) return false;
    for (const float* k = keys; k < keys + events * in; k += in) {
      Vec nearer = {};
      float rest = 0;
      int64_t c = 0;
      for (; c + kLanes <= in; c += kLanes) {
        const Vec size = Load(k + c), apart = 2.0f * (size - Load(q + c));
        nearer += size * size - apart * apart;
      }
      for (; c < in; ++c) rest += k[c] * k[c] - 4.0f * (k[c] - q[c]) * (k[c] - q[c]);
      if (Sum(nearer) + rest > 0) return true;
    }
    return false;
  }
};

// A row's own kernel, Wk - Wd + diag(q) Wp, computed on the fly. [C, wide]: q varies over rows.
struct RowKernel {
  const float *keys, *cross, *q;
  int64_t ld;
  CTRLAB_INLINE Vec operator()(int64_t p, int64_t column) const {
    return Load(keys + p * ld + column) + q[p] * Load(cross + p * ld + column);
  }
};

// Its transpose, [units, tall]: q varies over columns.
struct RowKernelAcross {
  const float *keys, *cross, *q;
  int64_t ld;
  CTRLAB_INLINE Vec operator()(int64_t p, int64_t column) const {
    return Load(keys + p * ld + column) + Load(q + column) * Load(cross + p * ld + column);
  }
};

// Calls visit(first event, number of events, their keys) for tiles of events, with k - q in place of k if `near`. `scratch` has
// room for SigmoidStack::kTile events.
template <class Visit>
void ForEvents(const float* q, const float* keys, int64_t events, int64_t C, bool near, float* scratch, const Visit& visit) {
  constexpr int64_t kTile = SigmoidStack::kTile;
  if (!near) return visit(0, events, keys);
  for (int64_t n = 0; n < events; n += kTile) {
    const int64_t m = std::min(kTile, events - n);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t c = 0; c < C; ++c) scratch[i * C + c] = keys[(n + i) * C + c] - q[c];
    }
    visit(n, m, scratch);
  }
}

}  // namespace ctrlab
