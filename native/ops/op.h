// Common definitions for all bindings: TensorFlow's names, and an op that returns a status.

#pragma once

#include <new>

#include "ops/errors.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ctrlab {

using tensorflow::DEVICE_CPU;
using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::OpOutputList;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::TensorShapeUtils;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// If scratch memory runs out, the op fails instead of the process. This also holds in pool threads: ParallelFor rethrows their
// exception in the calling thread.
class StatusOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) final {
    try {
      OP_REQUIRES_OK(context, Run(context));
    } catch (const std::bad_alloc&) {
      context->SetStatus(
          absl::ResourceExhaustedError(absl::StrCat("Out of memory for the scratch space of ", type_string(), ".")));
    }
  }

 protected:
  virtual absl::Status Run(OpKernelContext* context) = 0;
};

}  // namespace ctrlab
