// An MLP's layers above the first product, forward and backward, over a tile of positions. Its users compute the first layer's
// sums in different ways: see attention.cc and auxiliary.cc.

#pragma once

#include <vector>

#include "kernels/gemm.h"
#include "kernels/mlp.h"
#include "kernels/simd_math.h"

namespace ctrlab {

// y[0:n] += x[0:n], in whole vectors.
inline void AddVectors(float* y, const float* x, int64_t n) {
  for (int64_t o = 0; o < n; o += kLanes) Store(y + o, Load(y + o) + Load(x + o));
}

class SigmoidStack {
  static_assert(16 % kLanes == 0, "mlp.h pads to 16 floats");

 public:
  // Positions per tile; their numbers fit in the L1 cache.
  static constexpr int64_t kTile = 64;

  SigmoidStack(const DenseLayer* layers, int64_t count) : layers_(layers, layers + count), kept_layers_(KeptLayers(count)) {
    for (int64_t l = 0; l < count; ++l) {
      const DenseLayer& layer = layers_[l];
      Packed packed;
      packed.bias.assign(KeptOf(layer), 0.0f);
      std::copy_n(layer.bias, layer.out, packed.bias.begin());
      if (l > 0) {
        packed.kernel.resize(layer.in * KeptOf(layer));
        Pad(layer.kernel, layer.in, layer.out, packed.kernel.data());
        packed.transposed.resize(layer.out * Padded(layer.in));
        PadTransposed(layer.kernel, layer.in, layer.out, layer.out, packed.transposed.data());
        packed.gradient_at = gradient_floats_;
        gradient_floats_ += GradientOf(l);
      }
      packed.kept_at = kept_;
      if (l < kept_layers_) kept_ += KeptOf(layer);
      packed_.push_back(std::move(packed));
    }
  }

  // Floats per position that Forward keeps and Backward reads.
  int64_t kept() const { return kept_; }
  // Floats of a block's gradient: that of all layers but the first.
  int64_t gradient_floats() const { return gradient_floats_; }
  // Floats of scratch that Backward needs.
  int64_t scratch_floats() const { return kTile * kept_; }
  // The first layer's bias, padded.
  const float* first_bias() const { return packed_[0].bias.data(); }

  // Layer l's kept numbers for position n, if `kept` holds N positions.
  float* At(float* kept, int64_t positions, int64_t l, int64_t n) const {
    return kept + positions * packed_[l].kept_at + n * KeptOf(layers_[l]);
  }
  const float* At(const float* kept, int64_t positions, int64_t l, int64_t n) const {
    return At(const_cast<float*>(kept), positions, l, n);
  }

  // Positions [n, n + m): the first layer's sums, stored where they will be kept, -> all layers above, and scores [m].
  void Forward(float* kept, int64_t positions, int64_t n, int64_t m, float* scores) const {
    if (layers_.size() == 1) {
      const float* sums = At(kept, positions, 0, n);
      for (int64_t i = 0; i < m; ++i) scores[i] = sums[i * KeptOf(layers_[0])];
      return;
    }
    for (int64_t l = 0; l < kept_layers_; ++l) {
      const int64_t wide = KeptOf(layers_[l]);
      float* h = At(kept, positions, l, n);
      if (l > 0) {
        for (int64_t i = 0; i < m; ++i) std::copy_n(packed_[l].bias.data(), wide, h + i * wide);
        Gemm(true, m, wide, layers_[l].in, Below(kept, positions, l, n), packed_[l].kernel.data(), wide, h, wide);
      }
      for (int64_t o = 0; o < m * wide; o += kLanes) Store(h + o, Sigmoid(Load(h + o)));
    }
    const int64_t wide = KeptOf(layers_[kept_layers_ - 1]);
    const float *h = At(kept, positions, kept_layers_ - 1, n), *top = packed_.back().transposed.data();
    for (int64_t i = 0; i < m; ++i) scores[i] = layers_.back().bias[0] + Dot(h + i * wide, top, wide);
  }

  // Backward for the same positions: d_scores [m] -> d_first [m, KeptOf(first layer)], the gradient of the first layer's sums.
  // Adds the gradients of the layers above to `gradient`.
  void Backward(const float* kept, int64_t positions, int64_t n, int64_t m, const float* d_scores, float* d_first,
                float* gradient, float* scratch) const {
    const int64_t last = kept_layers_ - 1, wide = KeptOf(layers_[last]);
    auto d_of = [&](int64_t l) { return l == 0 ? d_first : scratch + kTile * packed_[l].kept_at; };
    if (layers_.size() == 1) {
      std::fill_n(d_first, m * wide, 0.0f);
      for (int64_t i = 0; i < m; ++i) d_first[i * wide] = d_scores[i];
      return;
    }
    const float *h = At(kept, positions, last, n), *top = packed_.back().transposed.data();
    float *d = d_of(last), *d_top = gradient + packed_.back().gradient_at;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t o = i * wide, t = 0; t < wide; o += kLanes, t += kLanes) {
        const Vec s = Load(h + o);
        Store(d + o, d_scores[i] * Load(top + t) * s * (1.0f - s));
        Store(d_top + t, Load(d_top + t) + d_scores[i] * s);
      }
      d_top[wide] += d_scores[i];
    }
    for (int64_t l = last; l > 0; --l)
      BackwardLayer(kept, positions, l, n, m, d_of(l), d_of(l - 1), gradient + packed_[l].gradient_at);
  }

  // A sum of blocks' gradients, in Backward's layout, -> the gradients of all layers but the first.
  void Unpack(const float* gradient, const DenseGradient* out) const {
    for (size_t l = 1; l < layers_.size(); ++l) {
      const DenseLayer& layer = layers_[l];
      const bool top = l + 1 == layers_.size();
      const int64_t wide = top ? 1 : KeptOf(layer);
      const float *from = gradient + packed_[l].gradient_at, *bias = from + (top ? Padded(layer.in) : layer.in * wide);
      for (int64_t i = 0; i < layer.in; ++i) std::copy_n(from + i * wide, layer.out, out[l].kernel + i * layer.out);
      std::copy_n(bias, layer.out, out[l].bias);
    }
  }

 private:
  struct Packed {
    std::vector<float> kernel;      // [in, Padded(out)]
    std::vector<float> transposed;  // [out, Padded(in)]
    std::vector<float> bias;        // [Padded(out)]
    int64_t kept_at = 0, gradient_at = 0;
  };

  // A layer's gradient: its kernel's [in, Padded(out)], then its bias's [Padded(out)]. The last layer's kernel is transposed.
  int64_t GradientOf(int64_t l) const {
    const DenseLayer& layer = layers_[l];
    return l + 1 == std::ssize(layers_) ? Padded(layer.in) + kLanes : (layer.in + 1) * KeptOf(layer);
  }

  // The input of layer l, as a matrix [m, in].
  Strided Below(const float* kept, int64_t positions, int64_t l, int64_t n) const {
    return {At(kept, positions, l - 1, n), KeptOf(layers_[l - 1]), 1};
  }

  void BackwardLayer(const float* kept, int64_t positions, int64_t l, int64_t n, int64_t m, const float* d, float* d_below,
                     float* gradient) const {
    const DenseLayer& layer = layers_[l];
    const int64_t wide = KeptOf(layer), below = KeptOf(layers_[l - 1]);
    const Strided h = Below(kept, positions, l, n);
    Gemm(true, layer.in, wide, m, {h.data, h.step, h.row}, d, wide, gradient, wide);
    for (int64_t i = 0; i < m; ++i) AddVectors(gradient + layer.in * wide, d + i * wide, wide);
    Gemm(false, m, below, layer.out, {d, wide, 1}, packed_[l].transposed.data(), below, d_below, below);
    for (int64_t o = 0; o < m * below; o += kLanes) {
      const Vec s = Load(h.data + o);
      Store(d_below + o, Load(d_below + o) * s * (1.0f - s));
    }
  }

  std::vector<DenseLayer> layers_;
  std::vector<Packed> packed_;
  int64_t kept_layers_, kept_ = 0, gradient_floats_ = 0;
};

// Adds out[0:n] of all blocks to the first block's, in block order: bitwise equal results for any number of threads.
inline void AddBlocks(float* blocks, int64_t count, int64_t n, const ParallelFor& parallel_for) {
  parallel_for(n / kLanes, 2 * count, [&](int64_t begin, int64_t end) {
    for (int64_t k = 1; k < count; ++k)
      AddVectors(blocks + begin * kLanes, blocks + k * n + begin * kLanes, (end - begin) * kLanes);
  });
}

}  // namespace ctrlab
