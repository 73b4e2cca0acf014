// TensorFlow's intra-op pool, in the form that kernels take.

#pragma once

#include "kernels/abi.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/threadpool.h"

namespace ctrlab {

// Units of at least this cost are distributed one by one. With fixed shares all threads would wait for one that lost its core.
constexpr int64_t kExpensiveCycles = 100'000;

inline ParallelFor IntraOpPool(tensorflow::OpKernelContext* context) {
  using tensorflow::thread::ThreadPool;
  using Params = ThreadPool::SchedulingParams;
  auto run = [](void* pool, int64_t total, int64_t cycles, void (*body)(void*, int64_t, int64_t), void* body_context) {
    const Params params = cycles < kExpensiveCycles ? Params::Adaptive(cycles) : Params::Fixed(1);
    static_cast<ThreadPool*>(pool)->ParallelFor(total, params,
                                                [&](int64_t begin, int64_t end) { body(body_context, begin, end); });
  };
  ThreadPool* pool = context->device()->tensorflow_cpu_worker_threads()->workers;
  return {pool, run};
}

}  // namespace ctrlab
