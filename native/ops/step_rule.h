// The numbers of an optimizer as op inputs: learning_rate (float scalar), step (scalar) and numbers (double [6]).

#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>

#include "kernels/optimizer_step/optimizer_step.h"
#include "ops/checks.h"
#include "ops/op.h"

namespace ctrlab {

inline constexpr const char* kStepKinds[] = {"sgd", "adagrad", "ftrl", "adam_async"};
inline constexpr int kSlotsOf[] = {0, 1, 2, 2};

// From the op's attribute `kind`; REGISTER_OP allows only valid names.
inline absl::Status ReadKind(OpKernelConstruction* context, StepKind* kind) {
  std::string name;
  TF_RETURN_IF_ERROR(context->GetAttr("kind", &name));
  *kind = static_cast<StepKind>(std::find(std::begin(kStepKinds), std::end(kStepKinds), name) - std::begin(kStepKinds));
  return absl::OkStatus();
}

// From the inputs `learning_rate`, `step` and `numbers`; the step is an int64 or a float, depending on the op.
inline absl::Status ReadRule(OpKernelContext* context, StepKind kind, StepRule* rule) {
  const Tensor *rate, *step, *numbers;
  TF_RETURN_IF_ERROR(context->input("learning_rate", &rate));
  TF_RETURN_IF_ERROR(context->input("step", &step));
  TF_RETURN_IF_ERROR(context->input("numbers", &numbers));
  if (!TensorShapeUtils::IsScalar(rate->shape()) || !TensorShapeUtils::IsScalar(step->shape())) {
    return InvalidArgument("Learning rate and step must be scalars; received ", rate->shape().DebugString(), " and ",
                           step->shape().DebugString(), ".");
  }
  TF_RETURN_IF_ERROR(CheckShape("`numbers`", *numbers, {6}));
  const float given = rate->scalar<float>()();
  if (!std::isfinite(given)) return InvalidArgument("A learning rate must be finite; received ", given, ". Nothing was changed.");
  const auto n = numbers->flat<double>();
  const double t = step->dtype() == tensorflow::DT_INT64 ? step->scalar<int64_t>()() : step->scalar<float>()();
  if (kind == kFtrl && given < std::numeric_limits<float>::min()) {
    return InvalidArgument("FTRL divides by its learning rate, which must be above 0 and no denormal; received ", given,
                           " in step ", t, ": let a warm-up begin above 0. Nothing was changed.");
  }
  *rule = {kind, n(0), n(1), n(2), n(3), n(4), n(5), given, t};
  return absl::OkStatus();
}

}  // namespace ctrlab
