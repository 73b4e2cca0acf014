// Ctrlab>FactorizationMachine, Ctrlab>DotInteraction and their gradients: inputs are checked here, then one kernel is called.

#include "kernels/interaction/interaction.h"
#include "kernels/registry.h"
#include "ops/checks.h"
#include "ops/op.h"
#include "ops/parallel_for.h"

namespace ctrlab {
namespace {

CTRLAB_KERNEL(factorization_machine);
CTRLAB_KERNEL(factorization_machine_gradient);
CTRLAB_KERNEL(dot_interaction);
CTRLAB_KERNEL(dot_interaction_gradient);

constexpr int64_t kMostVectors = 1 << 16;

absl::Status FactorizationMachineShape(InferenceContext* c) {
  int64_t dim;
  ShapeHandle fields;
  TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &fields));
  c->set_output(0, c->Matrix(c->Dim(fields, 0), dim));
  return absl::OkStatus();
}

absl::Status DotInteractionShape(InferenceContext* c) {
  int bottoms;
  int64_t dim;
  TF_RETURN_IF_ERROR(c->GetAttr("U", &bottoms));
  TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
  ShapeHandle fields;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(bottoms), 2, &fields));
  DimensionHandle rows = c->Dim(fields, 0);
  for (int i = 0; i < bottoms; ++i) {
    ShapeHandle bottom;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 2, &bottom));
    TF_RETURN_IF_ERROR(c->Merge(rows, c->Dim(bottom, 0), &rows));
  }
  DimensionHandle width = c->UnknownDim();
  const int64_t numbers = c->Value(c->Dim(fields, 1));  // -1: unknown
  if (dim <= numbers && numbers / dim <= kMostVectors && bottoms <= 1) {
    width = c->MakeDim(bottoms * dim + PairCount(numbers / dim + bottoms));
  }
  c->set_output(0, c->Matrix(rows, width));
  return absl::OkStatus();
}

// A gradient op's outputs have the shapes of its first inputs.
absl::Status GradientShape(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->input(i));
  return absl::OkStatus();
}

REGISTER_OP("Ctrlab>FactorizationMachine")
    .Attr("dim: int >= 1")
    .Input("fields: float")
    .Output("out: float")
    .SetShapeFn(FactorizationMachineShape)
    .Doc("Second-order interactions of the vectors of `dim` numbers that lie side by side in a row: [B, F * D] -> [B, D].");

REGISTER_OP("Ctrlab>FactorizationMachineGradient")
    .Attr("dim: int >= 1")
    .Input("fields: float")
    .Input("d_out: float")
    .Output("d_fields: float")
    .SetShapeFn(GradientShape)
    .Doc("The gradient of Ctrlab>FactorizationMachine.");

REGISTER_OP("Ctrlab>DotInteraction")
    .Attr("dim: int >= 1")
    .Attr("U: int >= 0")
    .Input("bottom: U * float")
    .Input("fields: float")
    .Output("out: float")
    .SetShapeFn(DotInteractionShape)
    .Doc(
        "The bottom vector (U = 1) or nothing (U = 0), then the dots of all pairs of vectors: [B, D], [B, F * D] -> [B, D + P].");

REGISTER_OP("Ctrlab>DotInteractionGradient")
    .Attr("dim: int >= 1")
    .Attr("U: int >= 0")
    .Input("bottom: U * float")
    .Input("fields: float")
    .Input("d_out: float")
    .Output("d_bottom: U * float")
    .Output("d_fields: float")
    .SetShapeFn(GradientShape)
    .Doc("The gradient of Ctrlab>DotInteraction.");

// Reads the common inputs of all four ops. The tensors must outlive `input`.
absl::Status Read(OpKernelContext* context, int64_t dim, int bottoms, InteractionInput* input) {
  const Tensor& fields = context->input(bottoms);
  const TensorShape& shape = fields.shape();
  if (!TensorShapeUtils::IsMatrix(shape) || shape.dim_size(1) == 0 || shape.dim_size(1) % dim != 0) {
    return InvalidArgument("The fields must be [B, F * D] with F at least 1 and D = ", dim, "; received ", shape.DebugString(),
                           ".");
  }
  if (shape.dim_size(1) / dim > kMostVectors) {
    return InvalidArgument("A row must have at most ", kMostVectors, " vectors; received ", shape.dim_size(1) / dim, ".");
  }
  *input = {nullptr, fields.flat<float>().data(), shape.dim_size(0), shape.dim_size(1) / dim, dim};
  if (bottoms == 0) return absl::OkStatus();
  TF_RETURN_IF_ERROR(CheckShape("The bottom vector, [B, D],", context->input(0), {input->rows, dim}));
  input->bottom = context->input(0).flat<float>().data();
  return absl::OkStatus();
}

class InteractionBase : public StatusOp {
 public:
  explicit InteractionBase(OpKernelConstruction* context) : StatusOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("dim", &dim_));
    if (!context->HasAttr("U")) return;
    OP_REQUIRES_OK(context, context->GetAttr("U", &bottoms_));
    OP_REQUIRES(context, bottoms_ <= 1, InvalidArgument("There is one bottom vector a row or none; received ", bottoms_, "."));
  }

  absl::Status Run(OpKernelContext* context) final {
    InteractionInput input;
    TF_RETURN_IF_ERROR(Read(context, dim_, bottoms_, &input));
    return RunInput(context, input, IntraOpPool(context));
  }

 protected:
  virtual absl::Status RunInput(OpKernelContext* context, const InteractionInput& input, const ParallelFor& pool) = 0;

  int64_t DotWidth(const InteractionInput& input) const { return bottoms_ * dim_ + PairCount(input.field_count + bottoms_); }

  int64_t dim_ = 0;
  int bottoms_ = 0;
};

class FactorizationMachineOp : public InteractionBase {
 public:
  using InteractionBase::InteractionBase;

 private:
  absl::Status RunInput(OpKernelContext* context, const InteractionInput& input, const ParallelFor& pool) override {
    Tensor* out;
    TF_RETURN_IF_ERROR(context->allocate_output(0, TensorShape({input.rows, dim_}), &out));
    factorization_machine_kernel(&input, out->flat<float>().data(), &pool);
    return absl::OkStatus();
  }
};

class FactorizationMachineGradientOp : public InteractionBase {
 public:
  using InteractionBase::InteractionBase;

 private:
  absl::Status RunInput(OpKernelContext* context, const InteractionInput& input, const ParallelFor& pool) override {
    const Tensor& d_out = context->input(1);
    TF_RETURN_IF_ERROR(CheckShape("d_out", d_out, {input.rows, dim_}));
    Tensor* d_fields;
    TF_RETURN_IF_ERROR(context->allocate_output(0, context->input(0).shape(), &d_fields));
    factorization_machine_gradient_kernel(&input, d_out.flat<float>().data(), d_fields->flat<float>().data(), &pool);
    return absl::OkStatus();
  }
};

class DotInteractionOp : public InteractionBase {
 public:
  using InteractionBase::InteractionBase;

 private:
  absl::Status RunInput(OpKernelContext* context, const InteractionInput& input, const ParallelFor& pool) override {
    Tensor* out;
    TF_RETURN_IF_ERROR(context->allocate_output(0, TensorShape({input.rows, DotWidth(input)}), &out));
    dot_interaction_kernel(&input, out->flat<float>().data(), &pool);
    return absl::OkStatus();
  }
};

class DotInteractionGradientOp : public InteractionBase {
 public:
  using InteractionBase::InteractionBase;

 private:
  absl::Status RunInput(OpKernelContext* context, const InteractionInput& input, const ParallelFor& pool) override {
    const Tensor& d_out = context->input(bottoms_ + 1);
    TF_RETURN_IF_ERROR(CheckShape("d_out", d_out, {input.rows, DotWidth(input)}));
    Tensor *d_bottom = nullptr, *d_fields;
    if (bottoms_) TF_RETURN_IF_ERROR(context->allocate_output(0, context->input(0).shape(), &d_bottom));
    TF_RETURN_IF_ERROR(context->allocate_output(bottoms_, context->input(bottoms_).shape(), &d_fields));
    dot_interaction_gradient_kernel(&input, d_out.flat<float>().data(), d_bottom ? d_bottom->flat<float>().data() : nullptr,
                                    d_fields->flat<float>().data(), &pool);
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>FactorizationMachine").Device(DEVICE_CPU), FactorizationMachineOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>FactorizationMachineGradient").Device(DEVICE_CPU), FactorizationMachineGradientOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>DotInteraction").Device(DEVICE_CPU), DotInteractionOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>DotInteractionGradient").Device(DEVICE_CPU), DotInteractionGradientOp);

}  // namespace
}  // namespace ctrlab
