// The consumer calls of change logs, which the ops on embedding variables and on dense tables share.

#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>

#include "ops/checks.h"
#include "ops/resource.h"

namespace ctrlab {

inline absl::Status ReadConsumer(OpKernelContext* context, std::string* consumer) {
  const Tensor* tensor;
  TF_RETURN_IF_ERROR(context->input("consumer", &tensor));
  if (tensor->NumElements() != 1) {
    return InvalidArgument("A consumer of changes has one name; received ", tensor->shape().DebugString(), ".");
  }
  *consumer = tensor->flat<tensorflow::tstring>()(0);
  return absl::OkStatus();
}

inline absl::Status WriteNumbers(OpKernelContext* context, int output, std::initializer_list<int64_t> numbers) {
  Tensor* out;
  TF_RETURN_IF_ERROR(context->allocate_output(output, TensorShape({static_cast<int64_t>(numbers.size())}), &out));
  std::copy(numbers.begin(), numbers.end(), out->flat<int64_t>().data());
  return absl::OkStatus();
}

// A consumer's message to a log. A Resource provides `log()`, and reports problems by `Told`.
template <class Resource>
absl::Status Confirm(OpKernelContext* context, Resource& resource, const std::string& consumer) {
  const Tensor* version;
  TF_RETURN_IF_ERROR(context->input("version", &version));
  TF_RETURN_IF_ERROR(CheckShape("A version", *version, {}));
  return resource.Told(resource.log().Confirm(consumer, version->scalar<int64_t>()()));
}

template <class Resource>
absl::Status CaughtUp(OpKernelContext* context, Resource& resource, const std::string& consumer) {
  Tensor* version;
  TF_RETURN_IF_ERROR(context->allocate_output(0, TensorShape({}), &version));
  return resource.Told(resource.log().CaughtUp(consumer, &version->scalar<int64_t>()()));
}

template <class Resource>
absl::Status Forget(OpKernelContext*, Resource& resource, const std::string& consumer) {
  resource.log().Forget(consumer);
  return absl::OkStatus();
}

template <class Resource, auto say>
class ConsumerOp final : public ResourceOp<Resource> {
 public:
  using ResourceOp<Resource>::ResourceOp;

 private:
  absl::Status Run(OpKernelContext* context, Resource& resource) override {
    std::string consumer;
    TF_RETURN_IF_ERROR(ReadConsumer(context, &consumer));
    return say(context, resource, consumer);
  }
};

// Registers the three ops with this name prefix; their first input, `handle`, is a Resource.
#define CTRLAB_CONSUMER_OPS(prefix, handle, Resource)                                                            \
  REGISTER_OP(prefix "Confirm")                                                                                  \
      .Input(handle ": resource")                                                                                \
      .Input("consumer: string")                                                                                 \
      .Input("version: int64")                                                                                   \
      .SetIsStateful()                                                                                           \
      .SetShapeFn(tensorflow::shape_inference::NoOutputs)                                                        \
      .Doc("A consumer has what its cut of this version gave.");                                                 \
  REGISTER_OP(prefix "CaughtUp")                                                                                 \
      .Input(handle ": resource")                                                                                \
      .Input("consumer: string")                                                                                 \
      .Output("version: int64")                                                                                  \
      .SetIsStateful()                                                                                           \
      .SetShapeFn(tensorflow::shape_inference::ScalarShape)                                                      \
      .Doc("A consumer has what the table holds now; the version of that.");                                     \
  REGISTER_OP(prefix "Forget")                                                                                   \
      .Input(handle ": resource")                                                                                \
      .Input("consumer: string")                                                                                 \
      .SetIsStateful()                                                                                           \
      .SetShapeFn(tensorflow::shape_inference::NoOutputs)                                                        \
      .Doc("Nothing is noted for this consumer any more; its next cut is everything.");                          \
  REGISTER_KERNEL_BUILDER(Name(prefix "Confirm").Device(DEVICE_CPU), ConsumerOp<Resource, Confirm<Resource>>);   \
  REGISTER_KERNEL_BUILDER(Name(prefix "CaughtUp").Device(DEVICE_CPU), ConsumerOp<Resource, CaughtUp<Resource>>); \
  REGISTER_KERNEL_BUILDER(Name(prefix "Forget").Device(DEVICE_CPU), ConsumerOp<Resource, Forget<Resource>>)

}  // namespace ctrlab
