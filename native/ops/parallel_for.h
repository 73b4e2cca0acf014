// TensorFlow's intra-op pool, in the form that kernels take.

#pragma once

#include "kernels/abi.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/threadpool.h"

namespace ctrlab {

inline ParallelFor IntraOpPool(tensorflow::OpKernelContext* context) {
  using tensorflow::thread::ThreadPool;
  auto run = [](void* pool, int64_t total, int64_t cycles, void (*body)(void*, int64_t, int64_t), void* body_context) {
    static_cast<ThreadPool*>(pool)->ParallelFor(total, ThreadPool::SchedulingParams::Adaptive(cycles),
                                                [&](int64_t begin, int64_t end) { body(body_context, begin, end); });
  };
  ThreadPool* pool = context->device()->tensorflow_cpu_worker_threads()->workers;
  return {pool, run};
}

}  // namespace ctrlab
