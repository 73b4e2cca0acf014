// The indicator column on a GPU: one warp per row. With many outputs the lanes split the outputs, otherwise the ids.

#include "kernels/cuda.h"
#include "kernels/indicator/indicator.h"

namespace ctrlab {
namespace {

constexpr int kThreads = 128;

// Calls visit(id's kernel row, weight) for the ids of row b; lane `first` takes every `step`-th id.
template <class Visit>
__device__ void ForEachHit(const IndicatorInput& input, int64_t b, int first, int step, const Visit& visit) {
  for (int64_t c = 0; c < input.column_count; ++c) {
    const IdColumn column = input.columns[c];
    const int64_t begin = column.splits ? column.splits[b] : b, end = column.splits ? column.splits[b + 1] : b + 1;
    for (int64_t i = begin + first; i < end; i += step) {
      const int64_t id = column.ids[i];
      if (id >= 0) visit(column.offset + id, column.weights ? column.weights[i] : 1.0f);
    }
  }
}

__global__ void Forward(IndicatorInput input, const float* kernel, float* out) {
  const int64_t b = blockIdx.x * int64_t{kThreads / kWarp} + threadIdx.x / kWarp, O = input.outputs;
  const int lane = threadIdx.x % kWarp;
  if (b >= input.rows) return;  // a whole warp leaves, and no block-wide barrier follows
  if (O >= kWarp) {
    for (int64_t o = lane; o < O; o += kWarp) {
      float sum = 0;
      ForEachHit(input, b, 0, 1, [&](int64_t row, float weight) { sum += weight * kernel[row * O + o]; });
      out[b * O + o] = sum;
    }
    return;
  }
  for (int64_t o = 0; o < O; ++o) {
    float sum = 0;
    ForEachHit(input, b, lane, kWarp, [&](int64_t row, float weight) { sum += weight * kernel[row * O + o]; });
    sum = WarpSum(sum);
    if (lane == 0) out[b * O + o] = sum;
  }
}

// The order of additions varies, so the last bits may differ between runs.
__global__ void Gradient(IndicatorInput input, const float* d_out, float* d_kernel) {
  const int64_t b = blockIdx.x * int64_t{kThreads / kWarp} + threadIdx.x / kWarp, O = input.outputs;
  const int lane = threadIdx.x % kWarp;
  if (b >= input.rows) return;
  if (O >= kWarp) {
    for (int64_t o = lane; o < O; o += kWarp) {
      const float d = d_out[b * O + o];
      ForEachHit(input, b, 0, 1, [&](int64_t row, float weight) { atomicAdd(&d_kernel[row * O + o], weight * d); });
    }
    return;
  }
  ForEachHit(input, b, lane, kWarp, [&](int64_t row, float weight) {
    for (int64_t o = 0; o < O; ++o) atomicAdd(&d_kernel[row * O + o], weight * d_out[b * O + o]);
  });
}

int64_t Blocks(const IndicatorInput& input) { return BlocksFor(input.rows, kThreads / kWarp); }

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

// kernel [V, O] -> out [B, O].
CTRLAB_EXPORT int ctrlab_cuda_indicator(const IndicatorInput* input, const float* kernel, float* out, void* stream) {
  return Launch(Forward, Blocks(*input), kThreads, 0, stream, *input, kernel, out);
}

// d_out [B, O] -> d_kernel [V, O]; kernel_rows is V.
CTRLAB_EXPORT int ctrlab_cuda_indicator_gradient(const IndicatorInput* input, const float* d_out, int64_t kernel_rows,
                                                 float* d_kernel, void* stream) {
  if (int failed = Fill(d_kernel, 0, kernel_rows * input->outputs * sizeof(float), stream)) return failed;
  return Launch(Gradient, Blocks(*input), kThreads, 0, stream, *input, d_out, d_kernel);
}
