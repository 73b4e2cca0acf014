// The batch norm kernels. Activations are not stored: recomputing product + bias is cheaper than reading them. After the first
// pass, a tile's rows are in the core's own cache.

#include "kernels/batch_norm/batch_norm.h"

#include <cmath>

#include "kernels/columns.h"

namespace ctrlab {
namespace {

// NaN stays NaN.
inline Vec Relu(const Vec& x) { return x <= 0.0f ? Vec{} : x; }

inline Vec InverseDeviation(const Vec& variance, float epsilon) {
  Vec inverse = {};
  for (int lane = 0; lane < kLanes; ++lane) inverse[lane] = 1.0f / std::sqrt(variance[lane] + epsilon);
  return inverse;
}

template <int V, bool kWhole>
void Forward(const ColumnTile<V, kWhole>& tile, const BatchNormInput& input, const BatchNormMoving& moving, float* out,
             float* mean, float* variance) {
  const int64_t B = input.rows, n = input.columns;
  const float share = B ? 1.0f / B : 0.0f, old = B ? moving.momentum : 1.0f;
  Vec bias[V] = {}, center[V] = {}, factor[V] = {}, shift[V] = {};
  for (int v = 0; v < V; ++v) bias[v] = tile.Get(input.bias, v);

  ColumnSums<V> sums, squares;
  for (int64_t b = 0; b < B; ++b) {
    for (int v = 0; v < V; ++v) sums.Add(v, Relu(tile.Get(input.product + b * n, v) + bias[v]));
    sums.NextRow();
  }
  for (int v = 0; v < V; ++v) center[v] = sums.Total(v) * share;
  for (int64_t b = 0; b < B; ++b) {
    for (int v = 0; v < V; ++v) {
      const Vec off = Relu(tile.Get(input.product + b * n, v) + bias[v]) - center[v];
      squares.Add(v, off * off);
    }
    squares.NextRow();
  }
  for (int v = 0; v < V; ++v) {
    const Vec spread = squares.Total(v) * share;
    factor[v] = tile.Get(input.scale, v) * InverseDeviation(spread, input.epsilon);
    shift[v] = tile.Get(input.shift, v);
    tile.Put(mean, v, center[v]);
    tile.Put(variance, v, spread);
    tile.Put(moving.new_mean, v, old * tile.Get(moving.mean, v) + (1 - old) * center[v]);
    tile.Put(moving.new_variance, v, old * tile.Get(moving.variance, v) + (1 - old) * spread);
  }
  for (int64_t b = 0; b < B; ++b) {
    for (int v = 0; v < V; ++v) {
      const Vec off = Relu(tile.Get(input.product + b * n, v) + bias[v]) - center[v];
      tile.Put(out + b * n, v, off * factor[v] + shift[v]);
    }
  }
}

template <int V, bool kWhole>
void Backward(const ColumnTile<V, kWhole>& tile, const BatchNormInput& input, const float* mean, const float* variance,
              const float* d_out, const BatchNormGradient& gradient) {
  const int64_t B = input.rows, n = input.columns;
  const float share = B ? 1.0f / B : 0.0f;
  Vec bias[V] = {}, center[V] = {}, inverse[V] = {};
  for (int v = 0; v < V; ++v) {
    bias[v] = tile.Get(input.bias, v);
    center[v] = tile.Get(mean, v);
    inverse[v] = InverseDeviation(tile.Get(variance, v), input.epsilon);
  }

  ColumnSums<V> sums, along;
  for (int64_t b = 0; b < B; ++b) {
    for (int v = 0; v < V; ++v) {
      const Vec d = tile.Get(d_out + b * n, v);
      sums.Add(v, d);
      along.Add(v, d * (Relu(tile.Get(input.product + b * n, v) + bias[v]) - center[v]));
    }
    sums.NextRow();
    along.NextRow();
  }
  Vec factor[V] = {}, even[V] = {}, slope[V] = {};  // d_a = factor * d - even - slope * (a - mean)
  for (int v = 0; v < V; ++v) {
    const Vec d_scale = along.Total(v) * inverse[v];
    factor[v] = tile.Get(input.scale, v) * inverse[v];
    even[v] = factor[v] * sums.Total(v) * share;
    slope[v] = factor[v] * d_scale * inverse[v] * share;
    tile.Put(gradient.d_shift, v, sums.Total(v));
    tile.Put(gradient.d_scale, v, d_scale);
  }
  ColumnSums<V> d_bias;
  for (int64_t b = 0; b < B; ++b) {
    for (int v = 0; v < V; ++v) {
      const Vec a = Relu(tile.Get(input.product + b * n, v) + bias[v]);
      const Vec d_a = factor[v] * tile.Get(d_out + b * n, v) - even[v] - slope[v] * (a - center[v]);
      const Vec d_product = a > 0.0f ? d_a : Vec{};
      tile.Put(gradient.d_product + b * n, v, d_product);
      d_bias.Add(v, d_product);
    }
    d_bias.NextRow();
  }
  for (int v = 0; v < V; ++v) tile.Put(gradient.d_bias, v, d_bias.Total(v));
}

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

void ctrlab_batch_norm(const BatchNormInput* input, const BatchNormMoving* moving, float* out, float* mean, float* variance,
                       const ParallelFor* parallel_for) {
  ForEachTile(input->rows, input->columns, 40, *parallel_for,
              [&](const auto& tile) { Forward(tile, *input, *moving, out, mean, variance); });
}

void ctrlab_batch_norm_gradient(const BatchNormInput* input, const float* mean, const float* variance, const float* d_out,
                                const BatchNormGradient* gradient, const ParallelFor* parallel_for) {
  ForEachTile(input->rows, input->columns, 50, *parallel_for,
              [&](const auto& tile) { Backward(tile, *input, mean, variance, d_out, *gradient); });
}
