// Ctrlab>OptimizerStep: every input is checked here, then one kernel changes all variables of a model and their slots.

#include "ops/op.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/optimizer_step/optimizer_step.h"
#include "kernels/registry.h"
#include "ops/checks.h"
#include "ops/parallel_for.h"
#include "ops/step_rule.h"
#include "ops/variables.h"

namespace ctrlab {
namespace {

CTRLAB_KERNEL(optimizer_step);

REGISTER_OP("Ctrlab>OptimizerStep")
    .Attr("N: int >= 1")
    .Attr("S: int >= 0")
    .Attr("P: int >= 0")
    .Attr("kind: {'sgd', 'adagrad', 'ftrl', 'adam_async'}")
    .Input("variables: N * resource")
    .Input("slots: P * resource")
    .Input("ids: S * int64")
    .Input("gradients: N * float")
    .Input("learning_rate: float")
    .Input("step: float")
    .Input("numbers: double")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(
        "A step on N variables. The first S have sparse gradients, of the rows `ids`, ascending, each once. `slots` are those of "
        "the first variable, then of the second; `numbers` are beta1, beta2, epsilon, l1, l2, clip_norm.");

class OptimizerStepOp : public StatusOp {
 public:
  explicit OptimizerStepOp(OpKernelConstruction* context) : StatusOp(context) {
    OP_REQUIRES_OK(context, ReadKind(context, &kind_));
    OP_REQUIRES_OK(context, context->GetAttr("N", &count_));
    OP_REQUIRES_OK(context, context->GetAttr("S", &sparse_));
    int slots;
    OP_REQUIRES_OK(context, context->GetAttr("P", &slots));
    slots_ = kSlotsOf[kind_];
    OP_REQUIRES(context, slots == slots_ * count_,
                InvalidArgument("Kind ", kStepKinds[kind_], " has ", slots_, " slots a variable; received ", slots, " for ",
                                count_, " variables."));
    OP_REQUIRES(context, sparse_ <= count_,
                InvalidArgument("No more variables can be sparse than there are; received ", sparse_, " of ", count_, "."));
  }

 private:
  absl::Status Run(OpKernelContext* context) override {
    StepRule rule;
    TF_RETURN_IF_ERROR(ReadRule(context, kind_, &rule));
    OpInputList ids, gradients;
    TF_RETURN_IF_ERROR(context->input_list("ids", &ids));
    TF_RETURN_IF_ERROR(context->input_list("gradients", &gradients));
    LockedVariables variables;
    TF_RETURN_IF_ERROR(variables.Add(context, "variables", "variable"));
    TF_RETURN_IF_ERROR(variables.Add(context, "slots", "slot"));
    TF_RETURN_IF_ERROR(variables.Lock(LockedVariables::For::kWriting));

    std::vector<StepVariable> steps(count_);
    for (int i = 0; i < count_; ++i) {
      const TensorShape& shape = variables.tensor(i).shape();
      if (i < sparse_) {
        TF_RETURN_IF_ERROR(CheckSparse(i, shape, ids[i], gradients[i]));
      } else {
        TF_RETURN_IF_ERROR(CheckShape(absl::StrCat("The gradient of variable ", i), gradients[i], shape));
      }
      for (int s = 0; s < slots_; ++s) {
        const int slot = count_ + i * slots_ + s;
        if (variables.tensor(slot).shape() != shape) {
          return InvalidArgument("The slots of variable ", i, " must be ", shape.DebugString(), "; received ",
                                 variables.tensor(slot).shape().DebugString(), ".");
        }
      }
    }
    // Nothing can be refused any more, so variables may change from here on.
    for (int i = 0; i < count_; ++i) {
      StepVariable& step = steps[i];
      TF_RETURN_IF_ERROR(variables.Writable(context, i, &step.weights));
      for (int s = 0; s < slots_; ++s) TF_RETURN_IF_ERROR(variables.Writable(context, count_ + i * slots_ + s, &step.slots[s]));
      step.ids = i < sparse_ ? ids[i].flat<int64_t>().data() : nullptr;
      step.gradient = gradients[i].flat<float>().data();
      step.rows = i < sparse_ ? ids[i].NumElements() : 1;
      step.dim = gradients[i].NumElements() / std::max<int64_t>(1, step.rows);
    }
    const ParallelFor pool = IntraOpPool(context);
    optimizer_step_kernel(&rule, steps.data(), count_, &pool);
    return absl::OkStatus();
  }

  static absl::Status CheckSparse(int i, const TensorShape& shape, const Tensor& ids, const Tensor& gradient) {
    if (shape.dims() < 1 || !TensorShapeUtils::IsVector(ids.shape())) {
      return InvalidArgument("A sparse gradient is of rows, and its ids are a vector; variable ", i, " is ", shape.DebugString(),
                             " and its ids are ", ids.shape().DebugString(), ".");
    }
    auto expected = shape.dim_sizes();
    expected[0] = ids.NumElements();
    TF_RETURN_IF_ERROR(CheckShape(absl::StrCat("The gradient of variable ", i, ", a row for each id,"), gradient, expected));
    const auto id = ids.flat<int64_t>();
    int64_t last = -1;
    for (int64_t k = 0; k < id.size(); last = id(k), ++k) {
      if (id(k) > last && id(k) < shape.dim_size(0)) continue;
      return InvalidArgument("The ids of variable ", i, " must be in [0, ", shape.dim_size(0),
                             "), ascending, each once; received ", id(k), " after ", last, " at ", k, ".");
    }
    return absl::OkStatus();
  }

  StepKind kind_;
  int count_, sparse_, slots_;
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>OptimizerStep").Device(DEVICE_CPU), OptimizerStepOp);

}  // namespace
}  // namespace ctrlab
