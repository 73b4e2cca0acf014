// What ops on logs of changes share: the name of a consumer, handles of new resources, numbers.

#pragma once

#include <initializer_list>
#include <string>

#include "ops/op.h"
#include "tensorflow/core/framework/resource_mgr.h"

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

template <class Resource>
absl::Status WriteHandle(OpKernelContext* context, Resource* resource) {
  Tensor* handle;
  const tensorflow::core::RefCountPtr<Resource> owned(resource);
  TF_RETURN_IF_ERROR(context->allocate_output(0, TensorShape({}), &handle));
  handle->scalar<tensorflow::ResourceHandle>()() =
      tensorflow::ResourceHandle::MakeRefCountingHandle(owned.GetNewRef().release(), context->device()->name());
  return absl::OkStatus();
}

inline absl::Status WriteNumbers(OpKernelContext* context, int output, std::initializer_list<int64_t> numbers) {
  Tensor* out;
  TF_RETURN_IF_ERROR(context->allocate_output(output, TensorShape({static_cast<int64_t>(numbers.size())}), &out));
  std::copy(numbers.begin(), numbers.end(), out->flat<int64_t>().data());
  return absl::OkStatus();
}

}  // namespace ctrlab
