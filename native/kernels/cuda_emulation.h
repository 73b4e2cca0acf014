// A GPU emulated by CPU threads: the blocks of a launch run one after another, the threads of a block in parallel.
//
// It checks logic, not speed. AddressSanitizer finds accesses beyond shared memory, ThreadSanitizer finds a missing
// __syncthreads(). Shared memory begins as NaN, so a read before the first write shows in the result.

#pragma once

#include <atomic>
#include <barrier>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __restrict__ __restrict

struct dim3 {
  unsigned x = 1, y = 1;
  dim3(int64_t x, int64_t y = 1) : x(static_cast<unsigned>(x)), y(static_cast<unsigned>(y)) {}
  dim3() = default;
};

namespace ctrlab::emulation {

struct Block {
  explicit Block(int threads) : all(threads), exchange(threads) {
    for (int first = 0; first < threads; first += 32) {
      warps.push_back(std::make_unique<std::barrier<>>(std::min(32, threads - first)));
    }
  }
  std::barrier<> all;
  std::vector<std::unique_ptr<std::barrier<>>> warps;
  std::vector<float> exchange;  // one entry per thread
  std::vector<float> shared;
};

inline thread_local Block* block = nullptr;
inline thread_local dim3 thread_index, block_index, block_size, grid_size;

}  // namespace ctrlab::emulation

#define threadIdx ctrlab::emulation::thread_index
#define blockIdx ctrlab::emulation::block_index
#define blockDim ctrlab::emulation::block_size
#define gridDim ctrlab::emulation::grid_size
#define CTRLAB_SHARED(name) float* const name = ctrlab::emulation::block->shared.data()

inline void __syncthreads() { ctrlab::emulation::block->all.arrive_and_wait(); }

template <class T>
T atomicAdd(T* place, T value) {
  return std::atomic_ref<T>(*place).fetch_add(value);
}

inline unsigned atomicOr(unsigned* place, unsigned bits) { return std::atomic_ref<unsigned>(*place).fetch_or(bits); }

inline int __popc(unsigned bits) { return std::popcount(bits); }

constexpr int cudaErrorInvalidValue = 1;

namespace ctrlab {

inline float WarpSum(float x) {
  emulation::Block& block = *emulation::block;
  const int thread = static_cast<int>(threadIdx.x), first = thread / 32 * 32;
  const int last = std::min<int>(first + 32, static_cast<int>(blockDim.x));
  block.exchange[thread] = x;
  block.warps[first / 32]->arrive_and_wait();
  float sum = 0;
  for (int lane = first; lane < last; ++lane) sum += block.exchange[lane];
  block.warps[first / 32]->arrive_and_wait();
  return sum;
}

template <class... Parameters, class... Arguments>
int Launch(void (*kernel)(Parameters...), dim3 blocks, int threads, size_t shared_bytes, void*, Arguments... arguments) {
  emulation::Block block(threads);
  auto run = [&](int thread) {
    emulation::block = &block;
    emulation::block_size = dim3(threads);
    emulation::grid_size = blocks;
    emulation::thread_index = dim3(thread, 0);
    for (unsigned y = 0; y < blocks.y; ++y) {
      for (unsigned x = 0; x < blocks.x; ++x) {
        if (thread == 0) block.shared.assign(shared_bytes / sizeof(float), std::numeric_limits<float>::quiet_NaN());
        block.all.arrive_and_wait();
        emulation::block_index = dim3(x, y);
        kernel(arguments...);
        block.all.arrive_and_wait();
      }
    }
  };
  std::vector<std::jthread> pool;
  for (int thread = 0; thread < threads; ++thread) pool.emplace_back(run, thread);
  return 0;
}

inline int Fill(void* p, int byte, size_t bytes, void*) {
  std::memset(p, byte, bytes);
  return 0;
}

}  // namespace ctrlab
