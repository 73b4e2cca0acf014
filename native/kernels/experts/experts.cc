// The experts' kernels. A block of rows goes through all layers of an expert while its activations are in a core's own cache.
// Bias and ReLU are applied to a product's output at once. The packed kernels [E, in, out] are read in place.

#include "kernels/experts/experts.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/gemm.h"

namespace ctrlab {
namespace {

constexpr int64_t kBlock = 64;  // rows of a kernel per unit of work

// Rows of the batch per unit of work: fewer in a small batch, so that all cores have work.
int64_t BlockOf(int64_t rows) { return std::clamp<int64_t>(rows / 8, 16, kBlock); }

// y = relu(y + bias) on [rows, n]; NaN stays NaN.
void AddBiasRelu(float* y, const float* bias, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, y += n) {
    for (int64_t o = 0; o < n; o += kLanes) {
      const Vec v = Load(y + o) + Load(bias + o);
      Store(y + o, v < Vec{} ? Vec{} : v);
    }
  }
}

// d = d_y where y > 0, else 0 * d_y, so that NaN stays NaN.
void MaskByRelu(const float* y, const float* d_y, float* d, int64_t count) {
  for (int64_t k = 0; k < count; k += kLanes) Store(d + k, Load(d_y + k) * (Load(y + k) > Vec{} ? Vec{} + 1.0f : Vec{}));
}

void SumRows(const float* d, int64_t rows, int64_t n, float* sums) {
  for (int64_t o = 0; o < n; o += kLanes) {
    Vec sum = {};
    for (int64_t r = 0; r < rows; ++r) sum += Load(d + r * n + o);
    Store(sums + o, sum);
  }
}

// `to` [n, Padded(rows)], with a row stride of `wide`, = `from` [rows, n] transposed and padded with zeros.
void TransposeRows(const float* from, int64_t rows, int64_t n, float* to, int64_t wide) {
  for (int64_t r = 0; r < rows; r += kLanes) {
    for (int64_t o = 0; o < n; o += kLanes) {
      Vec square[kLanes] = {};
      for (int64_t i = 0; i < std::min(kLanes, rows - r); ++i) square[i] = Load(from + (r + i) * n + o);
      Transpose(square);
      for (int64_t i = 0; i < kLanes; ++i) Store(to + (o + i) * wide + r, square[i]);
    }
  }
}

// The layout of `scratch`: see ExpertsScratch.
struct Scratch {
  std::vector<float*> d_sums;      // L of [E, B, sizes[l + 1]]
  std::vector<float*> transposed;  // L of [E, sizes[l + 1], Padded(sizes[l])]
  float* d_x;                      // [B, Padded(sizes[0])]

  Scratch(const ExpertsInput& in, float* floats) {
    for (int64_t l = 0; l < in.layers; ++l) {
      d_sums.push_back(floats);
      floats += in.experts * in.rows * in.sizes[l + 1];
      transposed.push_back(floats);
      floats += in.experts * in.sizes[l + 1] * Padded(in.sizes[l]);
    }
    d_x = floats;
  }
};

// The input of layer l of expert e, [B, sizes[l]].
const float* InputOf(const ExpertsInput& in, const float* const* hidden, int64_t l, int64_t e) {
  return l ? hidden[l - 1] + e * in.rows * in.sizes[l] : in.x;
}

// The gradients of every layer's sums, and d_x, for rows [row, row + rows).
void DescendBlock(const ExpertsInput& in, const float* const* hidden, const float* d_out, const Scratch& scratch, int64_t row,
                  int64_t rows) {
  for (int64_t e = 0; e < in.experts; ++e) {
    int64_t n = in.sizes[in.layers], place = (e * in.rows + row) * n;
    MaskByRelu(hidden[in.layers - 1] + place, d_out + place, scratch.d_sums[in.layers - 1] + place, rows * n);
    for (int64_t l = in.layers - 1; l >= 0; --l) {
      const float* d = scratch.d_sums[l] + (e * in.rows + row) * in.sizes[l + 1];
      const int64_t wide = Padded(in.sizes[l]);
      const float* transposed = scratch.transposed[l] + e * in.sizes[l + 1] * wide;
      float* d_input = l ? scratch.d_sums[l - 1] + (e * in.rows + row) * wide : scratch.d_x + row * wide;
      Gemm(l == 0 && e > 0, rows, wide, in.sizes[l + 1], {d, in.sizes[l + 1], 1}, transposed, wide, d_input, wide);
      if (l) MaskByRelu(hidden[l - 1] + (e * in.rows + row) * wide, d_input, d_input, rows * wide);
    }
  }
}

// A block of the rows of d_kernels[layer][expert].
struct KernelBlock {
  int64_t layer, expert, row, rows;
};

std::vector<KernelBlock> KernelBlocks(const ExpertsInput& in) {
  std::vector<KernelBlock> blocks;
  for (int64_t l = 0; l < in.layers; ++l) {
    for (int64_t e = 0; e < in.experts; ++e) {
      for (int64_t row = 0; row < in.sizes[l]; row += kBlock) blocks.push_back({l, e, row, std::min(kBlock, in.sizes[l] - row)});
    }
  }
  return blocks;
}

int64_t FlopsOfRow(const ExpertsInput& in) {
  int64_t flops = 0;
  for (int64_t l = 0; l < in.layers; ++l) flops += 2 * in.experts * in.sizes[l] * in.sizes[l + 1];
  return flops;
}

}  // namespace
}  // namespace ctrlab

void ctrlab_experts(const ctrlab::ExpertsInput* input, float* const* hidden, const ctrlab::ParallelFor* parallel_for) {
  using namespace ctrlab;
  const ExpertsInput& in = *input;
  const int64_t block = BlockOf(in.rows), blocks = (in.rows + block - 1) / block;
  (*parallel_for)(blocks, block* FlopsOfRow(in) / kLanes, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * block; row < std::min(in.rows, end * block); row += block) {
      const int64_t rows = std::min(block, in.rows - row);
      for (int64_t e = 0; e < in.experts; ++e) {
        for (int64_t l = 0; l < in.layers; ++l) {
          const int64_t k = in.sizes[l], n = in.sizes[l + 1];
          float* y = hidden[l] + (e * in.rows + row) * n;
          Gemm(false, rows, n, k, {InputOf(in, hidden, l, e) + row * k, k, 1}, in.kernels[l] + e * k * n, n, y, n);
          AddBiasRelu(y, in.biases[l] + e * n, rows, n);
        }
      }
    }
  });
}

void ctrlab_experts_gradient(const ctrlab::ExpertsInput* input, const float* const* hidden, const float* d_out, float* floats,
                             float* d_x, float* const* d_kernels, float* const* d_biases,
                             const ctrlab::ParallelFor* parallel_for) {
  using namespace ctrlab;
  const ExpertsInput& in = *input;
  const Scratch scratch(in, floats);
  const std::vector<KernelBlock> kernel_blocks = KernelBlocks(in);
  const int64_t block = BlockOf(in.rows), blocks = (in.rows + block - 1) / block, pieces = std::ssize(kernel_blocks);
  (*parallel_for)(pieces, kBlock* in.sizes[1], [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto [l, e, row, rows] = kernel_blocks[i];
      const int64_t k = in.sizes[l], n = in.sizes[l + 1], wide = Padded(k);
      TransposeRows(in.kernels[l] + (e * k + row) * n, rows, n, scratch.transposed[l] + e * n * wide + row, wide);
    }
  });
  (*parallel_for)(blocks, block* FlopsOfRow(in) / kLanes, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * block; row < std::min(in.rows, end * block); row += block) {
      const int64_t rows = std::min(block, in.rows - row), wide = Padded(in.sizes[0]);
      DescendBlock(in, hidden, d_out, scratch, row, rows);
      for (int64_t r = row; r < row + rows; ++r) std::copy_n(scratch.d_x + r * wide, in.sizes[0], d_x + r * in.sizes[0]);
    }
  });
  (*parallel_for)(pieces, in.rows* FlopsOfRow(in) / kLanes / pieces, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto [l, e, row, rows] = kernel_blocks[i];
      const int64_t k = in.sizes[l], n = in.sizes[l + 1];
      const float* d = scratch.d_sums[l] + e * in.rows * n;
      const Strided columns{InputOf(in, hidden, l, e) + row, 1, k};  // a block of the layer's input, transposed
      Gemm(false, rows, n, in.rows, columns, d, n, d_kernels[l] + (e * k + row) * n, n);
      if (row == 0) SumRows(d, in.rows, n, d_biases[l] + e * n);
    }
  });
}

void ctrlab_mixture(const ctrlab::MixtureInput* input, float* gates, float* out, const ctrlab::ParallelFor* parallel_for) {
  using namespace ctrlab;
  const auto [experts, logits, B, E, K, H] = *input;
  const auto body = [&, experts = experts, logits = logits, B = B, E = E, K = K, H = H](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t k = 0; k < K; ++k) {
        const float* z = logits + (b * K + k) * E;
        float* gate = gates + (b * K + k) * E;
        const float most = *std::max_element(z, z + E);
        float sum = 0;
        for (int64_t e = 0; e < E; ++e) sum += gate[e] = std::exp(z[e] - most);
        float* mixed = out + (k * B + b) * H;
        std::fill_n(mixed, H, 0.0f);
        for (int64_t e = 0; e < E; ++e) {
          gate[e] /= sum;
          AddScaled(mixed, gate[e], experts + (e * B + b) * H, H);
        }
      }
    }
  };
  (*parallel_for)(B, K * E * (H / 4 + 20), body);
}

void ctrlab_mixture_gradient(const ctrlab::MixtureInput* input, const float* gates, const float* d_out, float* d_experts,
                             float* d_logits, const ctrlab::ParallelFor* parallel_for) {
  using namespace ctrlab;
  const auto [experts, logits, B, E, K, H] = *input;
  const auto body = [&, experts = experts, B = B, E = E, K = K, H = H](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t e = 0; e < E; ++e) std::fill_n(d_experts + (e * B + b) * H, H, 0.0f);
      for (int64_t k = 0; k < K; ++k) {
        const float *gate = gates + (b * K + k) * E, *d = d_out + (k * B + b) * H;
        float* d_z = d_logits + (b * K + k) * E;  // first the gates' gradient, then the logits'
        float mean = 0;
        for (int64_t e = 0; e < E; ++e) {
          AddScaled(d_experts + (e * B + b) * H, gate[e], d, H);
          d_z[e] = Dot(experts + (e * B + b) * H, d, H);
          mean += gate[e] * d_z[e];
        }
        for (int64_t e = 0; e < E; ++e) d_z[e] = gate[e] * (d_z[e] - mean);
      }
    }
  };
  (*parallel_for)(B, K * E * (H / 2 + 10), body);
}
