// GRU and AUGRU on a GPU: a block owns eight rows and processes their whole histories, with the weights in shared memory. Rows
// are independent, so there is no synchronisation between blocks.
//
// A thread owns one column of a product for all eight rows, so each weight that it reads is used in eight multiplications.

#include "kernels/cuda.h"
#include "kernels/gru/gru.h"

namespace ctrlab {
namespace {

constexpr int kRows = 8;        // per block
constexpr int kPositions = 32;  // per round of the weights' gradient
constexpr int kSumThreads = 256;

// The rows of a block: their first positions, their lengths, and the longest length.
struct Rows {
  int64_t begin[kRows];
  int length[kRows];
  int longest = 0;

  __device__ explicit Rows(const GruInput& input) {
    for (int r = 0; r < kRows; ++r) {
      const int64_t b = blockIdx.x * int64_t{kRows} + r;
      begin[r] = b < input.rows ? input.splits[b] : 0;
      length[r] = b < input.rows ? static_cast<int>(input.splits[b + 1] - begin[r]) : 0;
      longest = length[r] > longest ? length[r] : longest;
    }
  }
};

__device__ inline void Copy(float* to, const float* from, int64_t count) {
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
}

// to[j, k] = from[k, j]; from is [rows, columns].
__device__ inline void CopyTransposed(float* to, const float* from, int64_t rows, int64_t columns) {
  for (int64_t i = threadIdx.x; i < rows * columns; i += blockDim.x) to[i % columns * rows + i / columns] = from[i];
}

// sums[r] += sum over k of vectors[k, r] * matrix[k, column]
__device__ inline void Product(float (&sums)[kRows], const float* vectors, const float* matrix, int64_t inner, int64_t columns,
                               int64_t column) {
  for (int64_t k = 0; k < inner; ++k) {
    const float weight = matrix[k * columns + column];
    for (int r = 0; r < kRows; ++r) sums[r] += vectors[k * kRows + r] * weight;
  }
}

__global__ void Forward(GruInput input, float* outputs, float* last, float* gates) {
  const int64_t C = input.inputs, H = input.hidden, J = C + H;
  CTRLAB_SHARED(shared);
  float* gates_kernel = shared;                        // [J, 2H]
  float* candidate_kernel = gates_kernel + J * 2 * H;  // [J, H]
  float* xh = candidate_kernel + J * H;                // [J, rows]: x, then the state
  float* xrh = xh + J * kRows;                         // [J, rows]: x, then the state after the reset gate
  float* update = xrh + J * kRows;                     // [H, rows]
  Copy(gates_kernel, input.gates_kernel, J * 2 * H);
  Copy(candidate_kernel, input.candidate_kernel, J * H);
  for (int64_t i = threadIdx.x; i < H * kRows; i += blockDim.x) xh[C * kRows + i] = 0;
  const Rows rows(input);
  for (int t = 0; t < rows.longest; ++t) {
    for (int64_t i = threadIdx.x; i < C * kRows; i += blockDim.x) {
      const int r = static_cast<int>(i / C);
      const int64_t k = i % C;
      xh[k * kRows + r] = xrh[k * kRows + r] = t < rows.length[r] ? input.x[(rows.begin[r] + t) * C + k] : 0.0f;
    }
    __syncthreads();
    for (int64_t j = threadIdx.x; j < 2 * H; j += blockDim.x) {
      float sums[kRows];
      for (int r = 0; r < kRows; ++r) sums[r] = input.gates_bias[j];
      Product(sums, xh, gates_kernel, J, 2 * H, j);
      for (int r = 0; r < kRows; ++r) {
        const float gate = SigmoidOf(sums[r]);
        if (t < rows.length[r]) gates[(rows.begin[r] + t) * 3 * H + j] = gate;
        if (j < H) {
          xrh[(C + j) * kRows + r] = gate * xh[(C + j) * kRows + r];
        } else {
          update[(j - H) * kRows + r] = gate;
        }
      }
    }
    __syncthreads();
    for (int64_t j = threadIdx.x; j < H; j += blockDim.x) {
      float sums[kRows];
      for (int r = 0; r < kRows; ++r) sums[r] = input.candidate_bias[j];
      Product(sums, xrh, candidate_kernel, J, H, j);
      for (int r = 0; r < kRows; ++r) {
        if (t >= rows.length[r]) continue;
        const int64_t n = rows.begin[r] + t;
        const float candidate = tanhf(sums[r]), u = update[j * kRows + r] * (input.attention ? 1.0f - input.attention[n] : 1.0f);
        float& h = xh[(C + j) * kRows + r];
        h = u * h + (1.0f - u) * candidate;
        outputs[n * H + j] = h;
        gates[n * 3 * H + 2 * H + j] = candidate;
      }
    }
    __syncthreads();
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < H * kRows; i += blockDim.x) {
    const int64_t b = blockIdx.x * int64_t{kRows} + i / H;
    if (b < input.rows) last[b * H + i % H] = xh[(C + i % H) * kRows + i / H];
  }
}

// Back through time: the gradients of x and of the attention; `d_gates` [N, 3H] gets those of the gates' and candidate's inputs.
__global__ void Backward(GruInput input, const float* outputs, const float* gates, const float* d_outputs, const float* d_last,
                         float* d_x, float* d_attention, float* d_gates) {
  const int64_t C = input.inputs, H = input.hidden, J = C + H;
  CTRLAB_SHARED(shared);
  float* gates_kernel = shared;                        // [2H, J]
  float* candidate_kernel = gates_kernel + 2 * H * J;  // [H, J]
  float* d_h = candidate_kernel + H * J;               // [H, rows]
  float* d_pre = d_h + H * kRows;                      // [3H, rows], of r, u and c
  float* d_rh = d_pre + 3 * H * kRows;                 // [H, rows]
  float* parts = d_rh + H * kRows;                     // [H, rows], the attention's
  CopyTransposed(gates_kernel, input.gates_kernel, J, 2 * H);
  CopyTransposed(candidate_kernel, input.candidate_kernel, J, H);
  const Rows rows(input);
  for (int64_t i = threadIdx.x; i < H * kRows; i += blockDim.x) {
    const int64_t b = blockIdx.x * int64_t{kRows} + i % kRows;
    d_h[i] = b < input.rows ? d_last[b * H + i / kRows] : 0.0f;
  }
  for (int t = rows.longest - 1; t >= 0; --t) {
    __syncthreads();
    for (int64_t i = threadIdx.x; i < H * kRows; i += blockDim.x) {
      const int64_t j = i / kRows;
      const int r = static_cast<int>(i % kRows);
      d_pre[H * kRows + i] = d_pre[2 * H * kRows + i] = parts[i] = 0;
      if (t >= rows.length[r]) continue;
      const int64_t n = rows.begin[r] + t;
      const float open = input.attention ? 1.0f - input.attention[n] : 1.0f;
      const float u = gates[n * 3 * H + H + j], c = gates[n * 3 * H + 2 * H + j], h = t ? outputs[(n - 1) * H + j] : 0.0f;
      const float d = d_h[i] + d_outputs[n * H + j], d_open_u = d * (h - c);
      d_pre[H * kRows + i] = d_open_u * open * u * (1 - u);
      d_pre[2 * H * kRows + i] = d * (1 - open * u) * (1 - c * c);
      d_h[i] = d * open * u;
      parts[i] = -d_open_u * u;
    }
    __syncthreads();
    for (int64_t k = threadIdx.x; k < J; k += blockDim.x) {
      float sums[kRows] = {};
      Product(sums, d_pre + 2 * H * kRows, candidate_kernel, H, J, k);
      for (int r = 0; r < kRows; ++r) {
        if (k >= C) {
          d_rh[(k - C) * kRows + r] = sums[r];
        } else if (t < rows.length[r]) {
          d_x[(rows.begin[r] + t) * C + k] = sums[r];
        }
      }
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < H * kRows; i += blockDim.x) {
      const int64_t j = i / kRows;
      const int r = static_cast<int>(i % kRows);
      d_pre[i] = 0;
      if (t >= rows.length[r]) continue;
      const int64_t n = rows.begin[r] + t;
      const float reset = gates[n * 3 * H + j], h = t ? outputs[(n - 1) * H + j] : 0.0f;
      d_pre[i] = d_rh[i] * h * reset * (1 - reset);
      d_h[i] += d_rh[i] * reset;
      for (int gate = 0; gate < 3; ++gate) d_gates[n * 3 * H + gate * H + j] = d_pre[gate * H * kRows + i];
    }
    if (d_attention && threadIdx.x < kRows && t < rows.length[threadIdx.x]) {
      float sum = 0;
      for (int64_t j = 0; j < H; ++j) sum += parts[j * kRows + threadIdx.x];
      d_attention[rows.begin[threadIdx.x] + t] = sum;
    }
    __syncthreads();
    for (int64_t k = threadIdx.x; k < J; k += blockDim.x) {
      float sums[kRows] = {};
      Product(sums, d_pre, gates_kernel, 2 * H, J, k);
      for (int r = 0; r < kRows; ++r) {
        if (t >= rows.length[r]) continue;
        if (k >= C) {
          d_h[(k - C) * kRows + r] += sums[r];
        } else {
          d_x[(rows.begin[r] + t) * C + k] += sums[r];
        }
      }
    }
  }
}

// d_kernel += [x, h]^T d_gates over the block's positions. A thread sums some of the J x 3H products, in shared memory, which
// holds a whole gradient. Blocks add their results in any order, so the last bits may differ between runs.
__global__ void SumOfPositions(GruInput input, int64_t positions, const int* first, const float* outputs, const float* gates,
                               const float* d_gates, GruGradient gradient) {
  const int64_t C = input.inputs, H = input.hidden, J = C + H;
  CTRLAB_SHARED(shared);
  float* sums = shared;                // [J + 1, 3H]; the last row is the biases'
  float* xh = sums + (J + 1) * 3 * H;  // [positions, J]
  float* rh = xh + kPositions * J;     // [positions, H]
  float* d = rh + kPositions * H;      // [positions, 3H]
  for (int64_t i = threadIdx.x; i < (J + 1) * 3 * H; i += blockDim.x) sums[i] = 0;
  for (int64_t begin = blockIdx.x * int64_t{kPositions}; begin < positions; begin += int64_t{gridDim.x} * kPositions) {
    const int count = static_cast<int>(positions - begin < kPositions ? positions - begin : kPositions);
    __syncthreads();
    for (int64_t i = threadIdx.x; i < count * J; i += blockDim.x) {
      const int64_t p = i / J, k = i % J, n = begin + p;
      if (k < C) {
        xh[i] = input.x[n * C + k];
        continue;
      }
      const float h = first[n] ? 0.0f : outputs[(n - 1) * H + k - C];
      xh[i] = h;
      rh[p * H + k - C] = h * gates[n * 3 * H + k - C];
    }
    Copy(d, d_gates + begin * 3 * H, count * 3 * H);
    __syncthreads();
    for (int64_t i = threadIdx.x; i < (J + 1) * 3 * H; i += blockDim.x) {
      const int64_t k = i / (3 * H), j = i % (3 * H);
      float sum = 0;
      for (int p = 0; p < count; ++p) {
        const float left = k == J ? 1.0f : (j >= 2 * H && k >= C) ? rh[p * H + k - C] : xh[p * J + k];
        sum += left * d[p * 3 * H + j];
      }
      sums[i] += sum;
    }
  }
  for (int64_t i = threadIdx.x; i < (J + 1) * 3 * H; i += blockDim.x) {
    const int64_t k = i / (3 * H), j = i % (3 * H);
    if (j < 2 * H) {
      atomicAdd(k == J ? &gradient.gates_bias[j] : &gradient.gates_kernel[k * 2 * H + j], sums[i]);
    } else {
      atomicAdd(k == J ? &gradient.candidate_bias[j - 2 * H] : &gradient.candidate_kernel[k * H + j - 2 * H], sums[i]);
    }
  }
}

// first[n] = 1 where a row begins.
__global__ void MarkFirst(GruInput input, int* first) {
  const int64_t b = blockIdx.x * int64_t{kSumThreads} + threadIdx.x;
  if (b < input.rows && input.splits[b] < input.splits[b + 1]) first[input.splits[b]] = 1;
}

int Threads(int64_t columns) { return static_cast<int>(BlocksFor(columns < 512 ? columns : 512, kWarp)) * kWarp; }

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

CTRLAB_EXPORT int ctrlab_cuda_gru(const GruInput* input, float* outputs, float* last, float* gates, void* stream) {
  const int64_t H = input->hidden, J = input->inputs + H;
  const size_t shared = (J * 3 * H + (2 * J + H) * ctrlab::kRows) * sizeof(float);
  return Launch(Forward, BlocksFor(input->rows, ctrlab::kRows), Threads(2 * H), shared, stream, *input, outputs, last, gates);
}

// `positions` is N; `d_gates` [N, 3H] and `first` [N] are scratch memory.
CTRLAB_EXPORT int ctrlab_cuda_gru_gradient(const GruInput* input, int64_t positions, const float* outputs, const float* gates,
                                           const float* d_outputs, const float* d_last, const GruGradient* gradient,
                                           float* d_gates, int* first, void* stream) {
  const int64_t C = input->inputs, H = input->hidden, J = C + H;
  const size_t shared = (J * 3 * H + 6 * H * ctrlab::kRows) * sizeof(float);
  const size_t summing = ((J + 1) * 3 * H + kPositions * (J + 4 * H)) * sizeof(float);
  float* const targets[] = {gradient->gates_kernel, gradient->gates_bias, gradient->candidate_kernel, gradient->candidate_bias};
  const int64_t sizes[] = {J * 2 * H, 2 * H, J * H, H};
  for (int i = 0; i < 4; ++i) {
    if (int failed = Fill(targets[i], 0, sizes[i] * sizeof(float), stream)) return failed;
  }
  if (int failed = Fill(first, 0, positions * sizeof(int), stream)) return failed;
  if (int failed = Launch(MarkFirst, BlocksFor(input->rows, kSumThreads), kSumThreads, 0, stream, *input, first)) return failed;
  if (int failed = Launch(Backward, BlocksFor(input->rows, ctrlab::kRows), Threads(J), shared, stream, *input, outputs, gates,
                          d_outputs, d_last, gradient->x, gradient->attention, d_gates)) {
    return failed;
  }
  const int64_t rounds = BlocksFor(positions, kPositions);
  return Launch(SumOfPositions, rounds < 132 ? rounds : 132, kSumThreads, summing, stream, *input, positions,
                static_cast<const int*>(first), outputs, gates, static_cast<const float*>(d_gates), *gradient);
}
