// Variables that an op reads or writes in place, without a copy. All are found by their handles and locked at once.

#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "ops/errors.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"

namespace ctrlab {

// float32 variables, locked for reading or writing until this object is destroyed.
//
// Locks are taken in the order of their addresses, like in TensorFlow's own ops, so that two ops can't deadlock. While a lock is
// held nothing else changes the tensors. No reference to a tensor is kept, because that would make the next writer copy it.
class LockedVariables {
 public:
  enum class For { kReading, kWriting };

  LockedVariables() = default;
  LockedVariables(const LockedVariables&) = delete;
  LockedVariables& operator=(const LockedVariables&) = delete;
  ~LockedVariables() {
    for (tensorflow::Var* variable : locked_) {
      if (writing_) {
        variable->mu()->unlock();
      } else {
        variable->mu()->unlock_shared();
      }
    }
  }

  // Adds the variables of an input list; `what` is the singular name: "table". Call Lock after the last.
  absl::Status Add(tensorflow::OpKernelContext* context, const char* list, const char* what) {
    tensorflow::OpInputList handles;
    TF_RETURN_IF_ERROR(context->input_list(list, &handles));
    for (int i = 0; i < handles.size(); ++i) {
      if (handles[i].NumElements() != 1) {
        return InvalidArgument("The handle of ", what, " ", i, " must be a scalar; received ", handles[i].shape().DebugString(),
                               ".");
      }
      names_.push_back(absl::StrCat(what, " ", i));
      TF_RETURN_IF_ERROR(LookupResource(context, handles[i].flat<tensorflow::ResourceHandle>()(0), &variables_.emplace_back()));
    }
    return absl::OkStatus();
  }

  absl::Status Lock(For use) {
    writing_ = use == For::kWriting;
    std::vector<tensorflow::Var*> order;
    for (const auto& variable : variables_) order.push_back(variable.get());
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return std::less<>()(a->mu(), b->mu()); });
    const auto end = std::unique(order.begin(), order.end());
    if (writing_ && end != order.end()) return InvalidArgument("Each variable and each slot must be given once.");
    order.erase(end, order.end());
    for (tensorflow::Var* variable : order) {
      if (writing_) {
        variable->mu()->lock();
      } else {
        variable->mu()->lock_shared();
      }
      locked_.push_back(variable);
    }
    for (size_t i = 0; i < variables_.size(); ++i) {
      const tensorflow::Tensor& tensor = *variables_[i]->tensor();
      if (tensor.dtype() != tensorflow::DT_FLOAT || !tensor.IsInitialized()) {
        return InvalidArgument("Variables must be float32 and have a value; ", names_[i], " is ",
                               tensor.IsInitialized() ? tensorflow::DataTypeString(tensor.dtype()) : "not initialized", ".");
      }
    }
    return absl::OkStatus();
  }

  const tensorflow::Tensor& tensor(int i) const { return *variables_[i]->tensor(); }
  const std::string& name(int i) const { return names_[i]; }
  const float* data(int i) const { return tensor(i).flat<float>().data(); }

  // The memory of variable i for writing. If a reader still holds the tensor, the variable first gets its own copy.
  absl::Status Writable(tensorflow::OpKernelContext* context, int i, float** data) {
    tensorflow::Tensor* tensor = variables_[i]->tensor();
    if (!tensor->RefCountIsOne()) {
      tensorflow::Tensor copy;
      TF_RETURN_IF_ERROR(context->allocate_temp(tensor->dtype(), tensor->shape(), &copy));
      std::copy_n(tensor->flat<float>().data(), tensor->NumElements(), copy.flat<float>().data());
      *tensor = copy;
    }
    *data = tensor->flat<float>().data();
    return absl::OkStatus();
  }

 private:
  std::vector<tensorflow::core::RefCountPtr<tensorflow::Var>> variables_;
  std::vector<std::string> names_;
  std::vector<tensorflow::Var*> locked_;
  bool writing_ = false;
};

}  // namespace ctrlab
