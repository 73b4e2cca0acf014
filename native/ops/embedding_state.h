// The tensors of a table's state in ops: n rows of D numbers, S slots, m candidates, r removed keys.

#pragma once

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "ops/embedding_table.h"
#include "table/state.h"

namespace ctrlab {

enum Part {
  kKeys,
  kValues,
  kSlots,
  kFrequencies,
  kSteps,
  kCandidateKeys,
  kCandidateCounts,
  kCandidateSteps,
  kFilter,
  kRemoved,
  kNames
};

// Declares these tensors (all but the names) as inputs or outputs of an op.
#define CTRLAB_STATE(Declare)             \
  Declare("keys: int64")                  \
      .Declare("values: float")           \
      .Declare("slots: float")            \
      .Declare("frequencies: int64")      \
      .Declare("steps: int64")            \
      .Declare("candidate_keys: int64")   \
      .Declare("candidate_counts: int64") \
      .Declare("candidate_steps: int64")  \
      .Declare("filter: uint8")           \
      .Declare("removed: int64")

inline absl::Status StateShapes(InferenceContext* c) {
  for (int k = 0; k < c->num_outputs(); ++k) {
    c->set_output(k, k == kSlots    ? c->UnknownShapeOfRank(3)
                     : k == kValues ? c->UnknownShapeOfRank(2)
                                    : c->Vector(c->UnknownDim()));
  }
  return absl::OkStatus();
}

inline absl::Status WriteNames(OpKernelContext* context, int output, const std::vector<std::string>& names) {
  Tensor* out;
  TF_RETURN_IF_ERROR(context->allocate_output(output, TensorShape({static_cast<int64_t>(names.size())}), &out));
  std::copy(names.begin(), names.end(), out->flat<tensorflow::tstring>().data());
  return absl::OkStatus();
}

// The first ten outputs of an op, allocated when the engine knows the sizes.
class StateOutputs {
 public:
  StateOutputs(OpKernelContext* context, int64_t dim, int64_t slots) : context_(context), dim_(dim), slots_(slots) {}

  // A table calls it, so it must not call the table.
  embedding::MakeRoom Room() {
    return [this](const embedding::StateSizes& sizes, embedding::StateOut* out) {
      allocated_ = Allocate(sizes, out);
      return allocated_.ok() ? embedding::Status() : embedding::Status("there is no memory for its state.");
    };
  }

  // TensorFlow's own error if an allocation failed, otherwise the engine's.
  absl::Status Checked(const std::string& name, const embedding::Status& status) const {
    TF_RETURN_IF_ERROR(allocated_);
    return OfTable(name, status);
  }

 private:
  absl::Status Allocate(const embedding::StateSizes& sizes, embedding::StateOut* out) {
    const auto make = [&](Part part, const TensorShape& shape, auto** data) {
      Tensor* tensor;
      TF_RETURN_IF_ERROR(context_->allocate_output(part, shape, &tensor));
      *data = tensor->flat<std::remove_reference_t<decltype(**data)>>().data();
      return absl::OkStatus();
    };
    const int64_t rows = sizes.rows, candidates = sizes.candidates;
    float* slots;
    TF_RETURN_IF_ERROR(make(kKeys, TensorShape({rows}), &out->keys));
    TF_RETURN_IF_ERROR(make(kValues, TensorShape({rows, dim_}), &out->values));
    TF_RETURN_IF_ERROR(make(kSlots, TensorShape({slots_, rows, dim_}), &slots));
    for (int64_t s = 0; s < slots_; ++s) out->slots[s] = slots + s * rows * dim_;
    TF_RETURN_IF_ERROR(make(kFrequencies, TensorShape({rows}), &out->frequencies));
    TF_RETURN_IF_ERROR(make(kSteps, TensorShape({rows}), &out->steps));
    TF_RETURN_IF_ERROR(make(kCandidateKeys, TensorShape({candidates}), &out->candidate_keys));
    TF_RETURN_IF_ERROR(make(kCandidateCounts, TensorShape({candidates}), &out->candidate_counts));
    TF_RETURN_IF_ERROR(make(kCandidateSteps, TensorShape({candidates}), &out->candidate_steps));
    TF_RETURN_IF_ERROR(make(kFilter, TensorShape({sizes.filter_bytes}), &out->filter));
    return make(kRemoved, TensorShape({sizes.removed}), &out->removed);
  }

  OpKernelContext* context_;
  const int64_t dim_, slots_;
  absl::Status allocated_;
};

}  // namespace ctrlab
