// DIEN's auxiliary loss. The first layer's sum on [h, e] is h Wh + e We + b; h Wh is computed once for both e's. Once the logits
// are known, a loss's gradient is known up to a factor. So a tile of positions goes forward and backward while it is in the
// cache.

#include "kernels/auxiliary/auxiliary.h"

#include <memory>

#include "kernels/row_blocks.h"
#include "kernels/sigmoid_stack.h"

namespace ctrlab {
namespace {

class Pass {
 public:
  static constexpr int64_t kTile = SigmoidStack::kTile / 2;  // positions; each has two logits

  Pass(const AuxiliaryInput& input, const AuxiliaryGradient& out)
      : input_(input),
        out_(out),
        stack_(input.layers, input.layer_count),
        H_(input.hidden),
        C_(input.width),
        out_floats_(input.layers[0].out),
        wide_(Padded(out_floats_)),
        tall_h_(Padded(H_)),
        tall_c_(Padded(C_)),
        kernel_((H_ + C_) * wide_),
        h_across_(out_floats_ * tall_h_),
        e_across_(out_floats_ * tall_c_) {
    const float* kernel = input.layers[0].kernel;
    Pad(kernel, H_ + C_, out_floats_, kernel_.data());
    PadTransposed(kernel, H_, out_floats_, out_floats_, h_across_.data());
    PadTransposed(kernel + H_ * out_floats_, C_, out_floats_, out_floats_, e_across_.data());
    for (int64_t b = 0; b < input.rows; ++b) positions_ += std::max<int64_t>(0, input.splits[b + 1] - input.splits[b] - 1);
  }

  // A block's sums: the first layer's kernel and bias, [H + C + 1, wide]; the layers above; the loss, in the first of 16 floats.
  int64_t sum_floats() const { return (H_ + C_ + 1) * wide_ + stack_.gradient_floats() + kLanes; }
  int64_t scratch_floats() const {
    const int64_t logits = 2 * kTile;
    return logits * (2 + stack_.kept() + C_ + wide_ + tall_c_) + kTile * (H_ + 2 * wide_ + tall_h_) + stack_.scratch_floats();
  }
  int64_t cycles_per_block(int64_t blocks) const {
    int64_t weights = 0;
    for (int64_t l = 0; l < input_.layer_count; ++l) weights += input_.layers[l].in * input_.layers[l].out;
    return positions_ / std::max<int64_t>(1, blocks) * (weights / 3 + 200);
  }

  void Block(int64_t begin, int64_t end, float* sums, float* scratch) const {
    std::fill_n(sums, sum_floats(), 0.0f);
    int64_t tile[kTile], m = 0;
    for (int64_t b = begin; b < end; ++b) {
      const int64_t from = input_.splits[b], to = input_.splits[b + 1];
      if (from == to) continue;
      std::fill_n(out_.clicked + from * C_, C_, 0.0f);  // no event precedes the first or follows the last
      std::fill_n(out_.skipped + from * C_, C_, 0.0f);
      std::fill_n(out_.interests + (to - 1) * H_, H_, 0.0f);
      for (int64_t n = from; n + 1 < to; ++n) {
        tile[m++] = n;
        if (m == kTile) Tile(tile, m, sums, scratch), m = 0;
      }
    }
    if (m > 0) Tile(tile, m, sums, scratch);
  }

  void Unpack(const float* sums, float* loss) const {
    const DenseGradient& first = out_.layers[0];
    for (int64_t i = 0; i < H_ + C_; ++i) std::copy_n(sums + i * wide_, out_floats_, first.kernel + i * out_floats_);
    std::copy_n(sums + (H_ + C_) * wide_, out_floats_, first.bias);
    stack_.Unpack(sums + (H_ + C_ + 1) * wide_, out_.layers);
    *loss = sums[sum_floats() - kLanes];
  }

 private:
  // Positions at[0:m]: their logits, first the clicked events', then the skipped ones'.
  void Tile(const int64_t* at, int64_t m, float* sums, float* scratch) const {
    const int64_t logits = 2 * m;
    float *x = scratch, *d_x = x + 2 * kTile, *h = d_x + 2 * kTile, *e = h + kTile * H_, *of_h = e + 2 * kTile * C_;
    float *kept = of_h + kTile * wide_, *d = kept + 2 * kTile * stack_.kept(), *rest = d + 2 * kTile * wide_;
    for (int64_t i = 0; i < m; ++i) {
      std::copy_n(input_.interests + at[i] * H_, H_, h + i * H_);
      std::copy_n(input_.clicked + (at[i] + 1) * C_, C_, e + i * C_);
      std::copy_n(input_.skipped + (at[i] + 1) * C_, C_, e + (m + i) * C_);
      std::copy_n(stack_.first_bias(), wide_, of_h + i * wide_);
    }
    Gemm(true, m, wide_, H_, {h, H_, 1}, kernel_.data(), wide_, of_h, wide_);
    float* first = stack_.At(kept, logits, 0, 0);
    for (int64_t i = 0; i < 2; ++i) std::copy_n(of_h, m * wide_, first + i * m * wide_);
    Gemm(true, logits, wide_, C_, {e, C_, 1}, &kernel_[H_ * wide_], wide_, first, wide_);
    stack_.Forward(kept, logits, 0, logits, x);
    sums[sum_floats() - kLanes] += Losses(x, m, d_x);
    float* above = sums + (H_ + C_ + 1) * wide_;
    stack_.Backward(kept, logits, 0, logits, d_x, d, above, rest + 2 * kTile * tall_c_ + kTile * (wide_ + tall_h_));
    BackFirst(at, m, h, e, d, sums, rest);
  }

  // Logits x [2 m] -> the contribution of these positions to the mean, and its gradient.
  float Losses(float* x, int64_t m, float* d_x) const {
    const float share = 1.0f / static_cast<float>(positions_);
    float loss = 0;
    for (int64_t i = 0; i < 2 * m; ++i) x[i] = i < m ? -x[i] : x[i];
    for (int64_t i = 2 * m; i < Padded(2 * m); ++i) x[i] = 0;
    for (int64_t i = 0; i < 2 * m; i += kLanes) {
      float each[kLanes];
      Store(each, Softplus(Load(x + i)));
      Store(d_x + i, share * Sigmoid(Load(x + i)));
      for (int64_t lane = 0; lane < std::min(kLanes, 2 * m - i); ++lane) loss += each[lane];
    }
    for (int64_t i = 0; i < m; ++i) d_x[i] = -d_x[i];
    return share * loss;
  }

  // Backward through the first layer: d [2 m, wide], the gradient of its sums.
  void BackFirst(const int64_t* at, int64_t m, const float* h, const float* e, float* d, float* sums, float* scratch) const {
    float *d_e = scratch, *d_sum = d_e + 2 * kTile * tall_c_, *d_h = d_sum + kTile * wide_;
    Gemm(true, C_, wide_, 2 * m, {e, 1, C_}, d, wide_, sums + H_ * wide_, wide_);
    Gemm(false, 2 * m, tall_c_, out_floats_, {d, wide_, 1}, e_across_.data(), tall_c_, d_e, tall_c_);
    std::copy_n(d, m * wide_, d_sum);
    AddVectors(d_sum, d + m * wide_, m * wide_);
    for (int64_t i = 0; i < m; ++i) AddVectors(sums + (H_ + C_) * wide_, d_sum + i * wide_, wide_);
    Gemm(true, H_, wide_, m, {h, 1, H_}, d_sum, wide_, sums, wide_);
    Gemm(false, m, tall_h_, out_floats_, {d_sum, wide_, 1}, h_across_.data(), tall_h_, d_h, tall_h_);
    for (int64_t i = 0; i < m; ++i) {
      std::copy_n(d_e + i * tall_c_, C_, out_.clicked + (at[i] + 1) * C_);
      std::copy_n(d_e + (m + i) * tall_c_, C_, out_.skipped + (at[i] + 1) * C_);
      std::copy_n(d_h + i * tall_h_, H_, out_.interests + at[i] * H_);
    }
  }

  const AuxiliaryInput& input_;
  const AuxiliaryGradient& out_;
  SigmoidStack stack_;
  int64_t H_, C_, out_floats_, wide_, tall_h_, tall_c_, positions_ = 0;
  std::vector<float> kernel_;               // [H + C, wide]
  std::vector<float> h_across_, e_across_;  // its two parts, transposed: [units, tall]
};

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

void ctrlab_auxiliary(const AuxiliaryInput* input, float* loss, const AuxiliaryGradient* gradient,
                      const ParallelFor* parallel_for) {
  const Pass pass(*input, *gradient);
  const std::vector<int64_t> blocks = RowBlocks(input->splits, input->rows, 0);
  const int64_t count = std::ssize(blocks) - 1, floats = pass.sum_floats(), scratch_floats = pass.scratch_floats();
  const auto sums = std::make_unique_for_overwrite<float[]>(std::max<int64_t>(1, count) * floats);
  const auto scratch = std::make_unique_for_overwrite<float[]>(count * scratch_floats);
  std::fill_n(sums.get(), floats, 0.0f);
  (*parallel_for)(count, pass.cycles_per_block(count), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) pass.Block(blocks[k], blocks[k + 1], &sums[k * floats], &scratch[k * scratch_floats]);
  });
  AddBlocks(sums.get(), count, floats, *parallel_for);
  pass.Unpack(sums.get(), loss);
}
