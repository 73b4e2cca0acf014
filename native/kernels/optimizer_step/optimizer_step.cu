// One optimizer step of all variables on a GPU: a pass for the gradients' norms if they are clipped, then one thread per number.
// A grid row is a variable.

#include "kernels/cuda.h"
#include "kernels/optimizer_step/optimizer_step.h"

namespace ctrlab {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 64;  // per variable; they loop, because only the GPU knows the number of merged rows

__device__ inline int64_t Rows(const StepVariable& variable, const int64_t* const* counts) {
  return counts ? *counts[blockIdx.y] : variable.rows;
}

__global__ void SquaredNorms(const StepVariable* variables, const int64_t* const* counts, float* squared_norms) {
  const StepVariable variable = variables[blockIdx.y];
  const int64_t size = Rows(variable, counts) * variable.dim;
  float sum = 0;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < size; i += int64_t{gridDim.x} * kThreads) {
    sum += variable.gradient[i] * variable.gradient[i];
  }
  sum = WarpSum(sum);
  if (threadIdx.x % kWarp == 0) atomicAdd(&squared_norms[blockIdx.y], sum);
}

__global__ void Step(StepRule rule, const StepVariable* variables, const int64_t* const* counts, const float* squared_norms) {
  const StepVariable variable = variables[blockIdx.y];
  float scale = 1;
  if (squared_norms) {
    const float norm = sqrtf(squared_norms[blockIdx.y]), most = static_cast<float>(rule.clip_norm);
    if (norm > most) scale = most / norm;
  }
  const float lr = static_cast<float>(rule.learning_rate);
  const float rate = lr * static_cast<float>(sqrt(1 - pow(rule.beta2, rule.step)) / (1 - pow(rule.beta1, rule.step)));
  const int64_t D = variable.dim, size = Rows(variable, counts) * D;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < size; i += int64_t{gridDim.x} * kThreads) {
    const int64_t at = variable.ids ? variable.ids[i / D] * D + i % D : i;
    const float g = scale * variable.gradient[i];
    float& w = variable.weights[at];
    if (rule.kind == kSgd) {
      w -= lr * g;
    } else if (rule.kind == kAdagrad) {
      const float a = variable.slots[0][at] += g * g;
      w -= lr * g / sqrtf(a);
    } else if (rule.kind == kFtrl) {
      const float l1 = static_cast<float>(rule.l1), l2 = static_cast<float>(rule.l2), n = variable.slots[0][at];
      const float more = n + g * g;
      const float z = variable.slots[1][at] += g - (sqrtf(more) - sqrtf(n)) / lr * w;
      variable.slots[0][at] = more;
      w = fabsf(z) <= l1 ? 0.0f : (copysignf(l1, z) - z) / (sqrtf(more) / lr + 2 * l2);
    } else {
      // 1 - beta is computed before rounding: for .999 a float difference would keep only four digits.
      const float b1 = static_cast<float>(rule.beta1), new1 = static_cast<float>(1 - rule.beta1);
      const float b2 = static_cast<float>(rule.beta2), new2 = static_cast<float>(1 - rule.beta2);
      const float m = variable.slots[0][at] = b1 * variable.slots[0][at] + new1 * g;
      const float v = variable.slots[1][at] = b2 * variable.slots[1][at] + new2 * g * g;
      w -= rate * m / (sqrtf(v) + static_cast<float>(rule.epsilon));
    }
  }
}

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

// `variables` [T] is in device memory. So are `counts` [T], addresses of each variable's number of rows (null: use `rows`), and
// `squared_norms` [T], scratch memory for a rule that clips.
CTRLAB_EXPORT int ctrlab_cuda_optimizer_step(const StepRule* rule, const StepVariable* variables, const int64_t* const* counts,
                                             int64_t count, float* squared_norms, void* stream) {
  const dim3 grid(kBlocks, count);
  const bool clips = rule->clip_norm > 0;
  if (clips) {
    if (int failed = Fill(squared_norms, 0, count * sizeof(float), stream)) return failed;
    if (int failed = Launch(SquaredNorms, grid, kThreads, 0, stream, variables, counts, squared_norms)) return failed;
  }
  return Launch(Step, grid, kThreads, 0, stream, *rule, variables, counts,
                static_cast<const float*>(clips ? squared_norms : nullptr));
}
