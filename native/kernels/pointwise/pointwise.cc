// The pointwise kernels: one pass forward; backward one pass that computes d_x and sums its columns at the same time.

#include "kernels/pointwise/pointwise.h"

#include "kernels/columns.h"

namespace ctrlab {
namespace {

inline bool HasSlope(int32_t kind) { return kind == kPrelu || kind == kAffine; }

template <int kKind>
inline Vec Apply(const Vec& x, const Vec& shift, const Vec& slope) {
  if constexpr (kKind == kAffine) return slope * x + shift;
  const Vec p = x + shift;
  return p <= 0.0f ? (kKind == kPrelu ? slope * p : Vec{}) : p;  // NaN stays NaN
}

template <int kKind, class Tile, int V = Tile::kVectors>
void Forward(const Tile& tile, const PointwiseInput& input, float* out) {
  const int64_t n = input.columns;
  Vec shift[V] = {}, slope[V] = {};
  for (int v = 0; v < V; ++v) {
    shift[v] = tile.Get(input.shift, v);
    if (HasSlope(kKind)) slope[v] = tile.Get(input.slope, v);
  }
  for (int64_t b = 0; b < input.rows; ++b) {
    for (int v = 0; v < V; ++v) tile.Put(out + b * n, v, Apply<kKind>(tile.Get(input.x + b * n, v), shift[v], slope[v]));
  }
}

template <int kKind, class Tile, int V = Tile::kVectors>
void Backward(const Tile& tile, const PointwiseInput& input, const float* out, const float* d_out,
              const PointwiseGradient& gradient) {
  const int64_t n = input.columns;
  Vec shift[V] = {}, slope[V] = {};
  for (int v = 0; v < V; ++v) {
    if (kKind == kPrelu) shift[v] = tile.Get(input.shift, v);
    if (HasSlope(kKind)) slope[v] = tile.Get(input.slope, v);
  }
  ColumnSums<V> d_shift, d_slope;
  for (int64_t b = 0; b < input.rows; ++b) {
    for (int v = 0; v < V; ++v) {
      const Vec d = tile.Get(d_out + b * n, v);
      Vec d_x = d;
      if constexpr (kKind == kRelu) d_x = d * (tile.Get(out + b * n, v) > 0.0f ? Vec{} + 1.0f : Vec{});
      if constexpr (kKind == kPrelu) {
        const Vec p = tile.Get(input.x + b * n, v) + shift[v];
        d_x = p > 0.0f ? d : slope[v] * d;
        d_slope.Add(v, p > 0.0f ? Vec{} : d * p);
      }
      if constexpr (kKind == kAffine) {
        d_x = slope[v] * d;
        d_slope.Add(v, d * tile.Get(input.x + b * n, v));
      }
      d_shift.Add(v, kKind == kAffine ? d : d_x);
      tile.Put(gradient.d_x + b * n, v, d_x);
    }
    d_shift.NextRow();
    d_slope.NextRow();
  }
  for (int v = 0; v < V; ++v) {
    tile.Put(gradient.d_shift, v, d_shift.Total(v));
    if (HasSlope(kKind)) tile.Put(gradient.d_slope, v, d_slope.Total(v));
  }
}

// Calls body with the kind as a constant.
template <class Body>
void OfKind(int32_t kind, const Body& body) {
  switch (kind) {
    case kPrelu:
      return body(std::integral_constant<int, kPrelu>());
    case kAffine:
      return body(std::integral_constant<int, kAffine>());
    default:
      return body(std::integral_constant<int, kRelu>());
  }
}

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

void ctrlab_pointwise(const PointwiseInput* input, float* out, const ParallelFor* parallel_for) {
  OfKind(input->kind, [&](auto kind) {
    ForEachTile(input->rows, input->columns, 12, *parallel_for, [&](const auto& tile) { Forward<kind()>(tile, *input, out); });
  });
}

void ctrlab_pointwise_gradient(const PointwiseInput* input, const float* out, const float* d_out,
                               const PointwiseGradient* gradient, const ParallelFor* parallel_for) {
  OfKind(input->kind, [&](auto kind) {
    ForEachTile(input->rows, input->columns, 20, *parallel_for,
                [&](const auto& tile) { Backward<kind()>(tile, *input, out, d_out, *gradient); });
  });
}
