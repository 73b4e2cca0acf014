// Objects of ours behind TensorFlow handles. Each lives as long as a handle to it exists.

#pragma once

#include "ops/op.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace ctrlab {

// Makes the op's first output a handle of the object, which the handle owns from then on.
template <class Resource>
absl::Status WriteHandle(OpKernelContext* context, Resource* resource) {
  Tensor* handle;
  const tensorflow::core::RefCountPtr<Resource> owned(resource);
  TF_RETURN_IF_ERROR(context->allocate_output(0, TensorShape({}), &handle));
  handle->scalar<tensorflow::ResourceHandle>()() =
      tensorflow::ResourceHandle::MakeRefCountingHandle(owned.GetNewRef().release(), context->device()->name());
  return absl::OkStatus();
}

template <class Resource>
absl::Status FindResource(OpKernelContext* context, const Tensor& handle, tensorflow::core::RefCountPtr<Resource>* found) {
  if (!TensorShapeUtils::IsScalar(handle.shape())) {
    return InvalidArgument("The handle of ", Resource::kKind, " must be a scalar; received ", handle.shape().DebugString(), ".");
  }
  TF_RETURN_IF_ERROR(LookupResource(context, handle.scalar<tensorflow::ResourceHandle>()(), found));
  if constexpr (requires { (*found)->Usable(); }) return (*found)->Usable();
  return absl::OkStatus();
}

// An op on the Resource behind its first input.
template <class Resource>
class ResourceOp : public StatusOp {
 public:
  using StatusOp::StatusOp;

 protected:
  absl::Status Run(OpKernelContext* context) final {
    tensorflow::core::RefCountPtr<Resource> found;
    TF_RETURN_IF_ERROR(FindResource(context, context->input(0), &found));
    return Run(context, *found);
  }

  virtual absl::Status Run(OpKernelContext* context, Resource& resource) = 0;
};

}  // namespace ctrlab
