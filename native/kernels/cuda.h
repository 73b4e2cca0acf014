// The basis of the .cu files. nvcc compiles them for a GPU. A plain C++20 compiler runs the same code on CPU threads
// (cuda_emulation.h), which checks the logic, also under sanitizers, on machines without a GPU.
//
// A CUDA twin takes the struct of its op's header, kernels/<op>/<op>.h. The struct is in host memory; its pointers point to
// device memory. The twin returns 0 or a cudaError_t, and runs asynchronously on the given stream.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/abi.h"

#ifdef __CUDACC__

#include <cuda_runtime.h>

// The single block of shared memory of a launch.
#define CTRLAB_SHARED(name) extern __shared__ float name[]

namespace ctrlab {

template <class... Parameters, class... Arguments>
int Launch(void (*kernel)(Parameters...), dim3 blocks, int threads, size_t shared_bytes, void* stream, Arguments... arguments) {
  if (blocks.x == 0 || blocks.y == 0) return cudaSuccess;
  if (shared_bytes > (48 << 10)) {  // above the default, a kernel must opt in
    cudaError_t refused =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    if (refused) return refused;
  }
  kernel<<<blocks, threads, shared_bytes, static_cast<cudaStream_t>(stream)>>>(arguments...);
  return cudaGetLastError();
}

inline int Fill(void* p, int byte, size_t bytes, void* stream) {
  return cudaMemsetAsync(p, byte, bytes, static_cast<cudaStream_t>(stream));
}

// The sum over a warp, in every lane. All 32 lanes must call it.
__device__ inline float WarpSum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

}  // namespace ctrlab

#else
#include "kernels/cuda_emulation.h"
#endif

namespace ctrlab {

constexpr int kWarp = 32;

inline int64_t BlocksFor(int64_t items, int64_t in_a_block) { return (items + in_a_block - 1) / in_a_block; }

__device__ inline float SigmoidOf(float x) { return 1.0f / (1.0f + expf(-x)); }

}  // namespace ctrlab
