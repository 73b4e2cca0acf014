// Ragged attention, one block of rows at a time. attention_layer.h explains how the first layer is made cheap, and its accuracy.

#include "kernels/attention/attention.h"

#include <memory>

#include "kernels/attention/attention_layer.h"
#include "kernels/attention/softmax.h"
#include "kernels/row_blocks.h"
#include "kernels/transpose.h"

namespace ctrlab {
namespace {

// to[R, V vectors] = start + a[R, k] kernel[k, V vectors from `column` on]; `start` is one line for all R.
template <int R, int V, class Kernel>
struct Products {
  static void Run(int64_t k, const Strided& a, const Kernel& kernel, int64_t column, const float* start, float* to, int64_t ld) {
    Vec sums[R * V];
    gemm::Unrolled<R * V>([&](int i) CTRLAB_INLINE { sums[i] = Load(start + column + i % V * kLanes); });
    gemm::AddProducts<R, V>(k, a, kernel, column, sums);
    gemm::Unrolled<R * V>([&](int i) CTRLAB_INLINE { Store(to + i / V * ld + column + i % V * kLanes, sums[i]); });
  }
};
template <int R, int V>
using Sums = Products<R, V, RowKernel>;
template <int R, int V>
using KeyGradients = Products<R, V, RowKernelAcross>;

// The destinations of the gradient of a row's own kernel, d = keys^T d_sums [C, wide].
struct KernelGradient {
  const float *q, *cross;       // [C], Wp [C, wide]
  float *d_q, *keys, *d_cross;  // [C], and of Wk - Wd and Wp [C, wide]
  int64_t wide;
};

// Rows [c, c + R) of it, V vectors from `column` on; the matrix itself is never written to memory.
template <int R, int V>
struct KernelGradients {
  static void Run(int64_t events, const Strided& keys, const float* d_sums, int64_t c, int64_t column, const KernelGradient& to) {
    Vec d[R * V];
    gemm::Unrolled<R * V>([&](int i) CTRLAB_INLINE { d[i] = Vec{}; });
    gemm::AddProducts<R, V>(events, keys, gemm::RowsOf{d_sums, to.wide}, column, d);
    for (int r = 0; r < R; ++r) {
      Vec d_q = {};
      const int64_t at = (c + r) * to.wide + column;
      gemm::Unrolled<V>([&](int v) CTRLAB_INLINE {
        const Vec one = d[r * V + v];
        const int64_t o = at + v * kLanes;
        Store(to.keys + o, Load(to.keys + o) + one);
        Store(to.d_cross + o, Load(to.d_cross + o) + to.q[c + r] * one);
        d_q += one * Load(to.cross + o);
      });
      to.d_q[c + r] += Sum(d_q);
    }
  }
};

constexpr int64_t kTile = SigmoidStack::kTile;
constexpr int64_t kPerRow = 2;  // fixed cost of a row, in events

// Estimated cycles of a block, for ParallelFor: one fused multiply-add per weight and event, a vector at a time.
int64_t CyclesPerBlock(const AttentionInput& input, int64_t blocks) {
  int64_t weights = 0;
  for (int64_t l = 0; l < input.layer_count; ++l) weights += input.layers[l].in * input.layers[l].out;
  return (input.splits[input.rows] + kPerRow * input.rows) / std::max<int64_t>(1, blocks) * (weights / 32 + 50);
}

// The first layer's sums per row; then the layers above in tiles of events, which may span rows.
void ScoreBlock(const AttentionInput& input, const FirstLayer& first, const SigmoidStack& stack, int64_t begin, int64_t end,
                float* scores, float* kept, float* of_queries) {
  const int64_t N = input.splits[input.rows], C = input.width;
  for (int64_t from = begin; from < end; from += kTile) {
    const int64_t rows = std::min(kTile, end - from);
    for (int64_t i = 0; i < rows; ++i) std::copy_n(stack.first_bias(), first.wide, of_queries + i * first.wide);
    Gemm(true, rows, first.wide, C, {input.query + from * C, C, 1}, first.query.data(), first.wide, of_queries, first.wide);
    float* differences = of_queries + kTile * first.wide;
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t n = input.splits[from + i], events = input.splits[from + i + 1] - n;
      const float *q = input.query + (from + i) * C, *all = input.keys + n * C;
      float* of_query = of_queries + i * first.wide;
      const auto sums = [&](const float* part, const float* keys, int64_t m, const float* start, float* to) {
        const RowKernel kernel{part, first.cross.data(), q, first.wide};
        gemm::ForTiles(m, first.wide, [&](int64_t event, int64_t count, int64_t column, int64_t vectors) {
          gemm::kTiles<Sums>[vectors - 1][count - 1](C, {keys + event * C, C, 1}, kernel, column, start, to + event* first.wide,
                                                     first.wide);
        });
      };
      const bool near = first.HasNear(q, all, events);
      if (near) sums(first.shared.data(), q, 1, stack.first_bias(), of_query);
      ForEvents(q, all, events, C, near, differences, [&](int64_t event, int64_t m, const float* keys) {
        sums(first.keys.data(), keys, m, of_query, stack.At(kept, N, 0, n + event));
      });
    }
  }
  for (int64_t n = input.splits[begin]; n < input.splits[end]; n += kTile) {
    stack.Forward(kept, N, n, std::min(kTile, input.splits[end] - n), scores + n);
  }
}

// A block's gradient of the first layer's four parts, [C, wide] each; of its bias, [wide]; then of the layers above. `query` sums
// over the rows that are not expanded around q, `shared` over those that are.
struct BlockGradient {
  float *query, *keys, *cross, *shared, *bias, *above;

  BlockGradient(float* at, const FirstLayer& first)
      : query(at),
        keys(at + first.in * first.wide),
        cross(keys + first.in * first.wide),
        shared(cross + first.in * first.wide),
        bias(shared + first.in * first.wide),
        above(bias + first.wide) {}
  static int64_t Floats(const FirstLayer& first, const SigmoidStack& stack) {
    return (4 * first.in + 1) * first.wide + stack.gradient_floats();
  }
};

class Backward {
 public:
  Backward(const AttentionInput& input, const FirstLayer& first, const SigmoidStack& stack)
      : input_(input), first_(first), stack_(stack), across_(first.out * first.tall), keys_(across_), query_(across_) {
    PadTransposed(first.query.data(), first.in, first.out, first.wide, query_.data());
    PadTransposed(first.keys.data(), first.in, first.out, first.wide, keys_.data());
    PadTransposed(first.cross.data(), first.in, first.out, first.wide, across_.data());
  }

  int64_t scratch_floats() const { return stack_.scratch_floats() + kTile * (3 * first_.tall + first_.wide) + first_.tall; }

  // `d_scores` [N] and `d_sums` [N, wide] are scratch memory shared by all blocks.
  void Block(int64_t begin, int64_t end, const float* weights, const float* kept, const float* d_weights, const float* d_attended,
             float* d_scores, float* d_sums, float* gradient, float* scratch, const AttentionGradient& out) const {
    const int64_t N = input_.splits[input_.rows];
    const BlockGradient sums(gradient, first_);
    std::fill_n(gradient, BlockGradient::Floats(first_, stack_), 0.0f);
    for (int64_t b = begin; b < end; ++b) ScoresOfRow(b, weights, d_weights, d_attended + b * input_.width, d_scores);
    for (int64_t n = input_.splits[begin]; n < input_.splits[end]; n += kTile) {
      const int64_t m = std::min(kTile, input_.splits[end] - n);
      stack_.Backward(kept, N, n, m, d_scores + n, d_sums + n * first_.wide, sums.above, scratch);
    }
    scratch += stack_.scratch_floats();
    for (int64_t b = begin; b < end;) b = Rows(b, end, weights, d_attended, d_sums, sums, scratch, out);
  }

 private:
  // Backward through the softmax and the weighted sum.
  void ScoresOfRow(int64_t b, const float* weights, const float* d_weights, const float* d_attended, float* d_scores) const {
    float mean = 0;
    for (int64_t n = input_.splits[b]; n < input_.splits[b + 1]; ++n) {
      d_scores[n] = d_weights[n] + Dot(d_attended, input_.keys + n * input_.width, input_.width);
      mean += weights[n] * d_scores[n];
    }
    for (int64_t n = input_.splits[b]; n < input_.splits[b + 1]; ++n) d_scores[n] = weights[n] * (d_scores[n] - mean);
  }

  // Backward through the first layer, for up to kTile rows with events from row b on. Returns the row after them.
  int64_t Rows(int64_t b, int64_t end, const float* weights, const float* d_attended, const float* d_sums,
               const BlockGradient& sums, float* scratch, const AttentionGradient& out) const {
    const int64_t C = input_.width, wide = first_.wide, tall = first_.tall;
    float *q = scratch, *d_q = q + kTile * tall, *d_of_query = d_q + kTile * tall;
    scratch = d_of_query + kTile * wide;
    int64_t rows[kTile], m = 0;
    for (; b < end && m < kTile; ++b) {
      if (input_.splits[b] == input_.splits[b + 1]) {
        std::fill_n(out.query + b * C, C, 0.0f);
        continue;
      }
      Pad(input_.query + b * C, 1, C, q + m * tall);
      std::fill_n(d_q + m * tall, tall, 0.0f);
      const bool near =
          Row(b, weights, d_attended + b * C, d_sums, sums, q + m * tall, d_q + m * tall, d_of_query + m * wide, scratch, out);
      if (near) std::fill_n(q + m * tall, tall, 0.0f);  // its share is in `shared`
      rows[m++] = b;
    }
    Gemm(true, m, tall, first_.out, {d_of_query, wide, 1}, query_.data(), tall, d_q, tall);
    Gemm(true, C, wide, m, {q, 1, tall}, d_of_query, wide, sums.query, wide);
    for (int64_t i = 0; i < m; ++i) {
      AddVectors(sums.bias, d_of_query + i * wide, wide);
      std::copy_n(d_q + i * tall, C, out.query + rows[i] * C);
    }
    return b;
  }

  // One row: adds to d_q the gradient through its own kernel, and writes d_of_query, the sum of its events' d_sums. Returns
  // whether the row was expanded around q.
  bool Row(int64_t b, const float* weights, const float* d_attended, const float* d_sums, const BlockGradient& sums,
           const float* q, float* d_q, float* d_of_query, float* scratch, const AttentionGradient& out) const {
    const int64_t from = input_.splits[b], to = input_.splits[b + 1], C = input_.width, wide = first_.wide, tall = first_.tall;
    float *d_keys = scratch, *zeros = d_keys + kTile * tall;
    std::fill_n(zeros, tall, 0.0f);
    const RowKernelAcross kernel{keys_.data(), across_.data(), q, tall};
    for (int64_t n = from; n < to; n += kTile) {
      const int64_t m = std::min(kTile, to - n);
      gemm::ForTiles(m, tall, [&](int64_t event, int64_t count, int64_t column, int64_t vectors) {
        const Strided d{d_sums + (n + event) * wide, wide, 1};
        gemm::kTiles<KeyGradients>[vectors - 1][count - 1](first_.out, d, kernel, column, zeros, d_keys + event* tall, tall);
      });
      for (int64_t i = 0; i < m; ++i) {
        AddScaled(d_keys + i * tall, weights[n + i], d_attended, C);
        CopyRow(d_keys + i * tall, C, out.keys + (n + i) * C);
      }
    }
    for (int64_t o = 0; o < wide; o += kLanes) {
      Vec sum = {};
      for (int64_t n = from; n < to; ++n) sum += Load(d_sums + n * wide + o);
      Store(d_of_query + o, sum);
    }
    const auto add = [&](const float* keys, int64_t m, const float* d, float* d_part) {
      const KernelGradient gradient{q, first_.cross.data(), d_q, d_part, sums.cross, wide};
      gemm::ForTiles(C, wide, [&](int64_t c, int64_t count, int64_t column, int64_t vectors) {
        gemm::kTiles<KernelGradients>[vectors - 1][count - 1](m, {keys + c, 1, C}, d, c, column, gradient);
      });
    };
    const float* all = input_.keys + from * C;
    const bool near = first_.HasNear(q, all, to - from);
    ForEvents(q, all, to - from, C, near, d_keys,
              [&](int64_t event, int64_t m, const float* keys) { add(keys, m, d_sums + (from + event) * wide, sums.keys); });
    if (near) add(q, 1, d_of_query, sums.shared);
    return near;
  }

  const AttentionInput& input_;
  const FirstLayer& first_;
  const SigmoidStack& stack_;
  std::vector<float> across_, keys_, query_;  // the parts of the first layer, transposed: [out, tall]
};

// Converts the parts' gradients to that of [Wq; Wk; Wd; Wp].
void UnpackFirst(const BlockGradient& sums, const FirstLayer& first, const DenseGradient& out) {
  const int64_t part = first.in * first.out;
  for (int64_t c = 0; c < first.in; ++c) {
    for (int64_t u = 0; u < first.out; ++u) {
      const int64_t from = c * first.wide + u, to = c * first.out + u;
      out.kernel[to] = sums.query[from] + sums.shared[from];
      out.kernel[part + to] = sums.keys[from] + sums.shared[from];
      out.kernel[2 * part + to] = sums.query[from] - sums.keys[from];
      out.kernel[3 * part + to] = sums.cross[from];
    }
  }
  std::copy_n(sums.bias, first.out, out.bias);
}

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

void ctrlab_attention_scores(const AttentionInput* input, float* scores, float* kept, const ParallelFor* parallel_for) {
  const FirstLayer first(input->layers[0], input->width);
  const SigmoidStack stack(input->layers, input->layer_count);
  const std::vector<int64_t> blocks = RowBlocks(input->splits, input->rows, kPerRow);
  const int64_t count = std::ssize(blocks) - 1, floats = kTile * (first.wide + first.in);
  const auto scratch = std::make_unique_for_overwrite<float[]>(count * floats);
  (*parallel_for)(count, CyclesPerBlock(*input, count), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      ScoreBlock(*input, first, stack, blocks[k], blocks[k + 1], scores, kept, &scratch[k * floats]);
    }
  });
}

void ctrlab_attention_pool(const AttentionInput* input, const float* scores, float* weights, float* attended,
                           const ParallelFor* parallel_for) {
  const int64_t C = input->width, events = input->splits[input->rows] / std::max<int64_t>(1, input->rows);
  (*parallel_for)(input->rows, 20 + events * (20 + C / 8), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t from = input->splits[b], to = input->splits[b + 1];
      float* sum = attended + b * C;
      std::fill_n(sum, C, 0.0f);
      if (from < to) Softmax(scores + from, to - from, weights + from);
      for (int64_t n = from; n < to; ++n) AddScaled(sum, weights[n], input->keys + n * C, C);
    }
  });
}

void ctrlab_attention_gradient(const AttentionInput* input, const float* weights, const float* kept, const float* d_weights,
                               const float* d_attended, const AttentionGradient* gradient, const ParallelFor* parallel_for) {
  const FirstLayer first(input->layers[0], input->width);
  const SigmoidStack stack(input->layers, input->layer_count);
  const Backward backward(*input, first, stack);
  const std::vector<int64_t> blocks = RowBlocks(input->splits, input->rows, kPerRow);
  const int64_t N = input->splits[input->rows], count = std::ssize(blocks) - 1;
  const int64_t floats = BlockGradient::Floats(first, stack), scratch_floats = backward.scratch_floats();
  const auto sums = std::make_unique_for_overwrite<float[]>(std::max<int64_t>(1, count) * floats);
  const auto scratch = std::make_unique_for_overwrite<float[]>(count * scratch_floats + N * (1 + first.wide));
  float *d_scores = &scratch[count * scratch_floats], *d_sums = d_scores + N;
  (*parallel_for)(count, 2 * CyclesPerBlock(*input, count), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      backward.Block(blocks[k], blocks[k + 1], weights, kept, d_weights, d_attended, d_scores, d_sums, &sums[k * floats],
                     &scratch[k * scratch_floats], *gradient);
    }
  });
  if (count == 0) std::fill_n(sums.get(), floats, 0.0f);
  AddBlocks(sums.get(), count, floats, *parallel_for);
  const BlockGradient total(sums.get(), first);
  UnpackFirst(total, first, gradient->layers[0]);
  stack.Unpack(total.above, gradient->layers);
}
