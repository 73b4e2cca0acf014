// Ctrlab>Pointwise and its gradient: every input is checked here, then one kernel is called through the table.

#include <string>

#include "kernels/pointwise/pointwise.h"
#include "kernels/registry.h"
#include "ops/checks.h"
#include "ops/op.h"
#include "ops/parallel_for.h"

namespace ctrlab {
namespace {

CTRLAB_KERNEL(pointwise);
CTRLAB_KERNEL(pointwise_gradient);

// Input 0 is [B, n], `shift` is [n].
absl::Status Shapes(InferenceContext* c, int shift, ShapeHandle* matrix, ShapeHandle* vector) {
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, matrix));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(shift), 1, vector));
  return c->Merge(*vector, c->Vector(c->Dim(*matrix, 1)), vector);
}

REGISTER_OP("Ctrlab>Pointwise")
    .Attr("kind: {'relu', 'prelu', 'affine'}")
    .Input("x: float")
    .Input("shift: float")
    .Input("slope: float")
    .Output("out: float")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle matrix, vector;
      TF_RETURN_IF_ERROR(Shapes(c, 1, &matrix, &vector));
      c->set_output(0, matrix);
      return absl::OkStatus();
    })
    .Doc("Bias and activation, or an affine map, of a matrix by its columns. `slope` is [n] for prelu and affine, else empty.");

REGISTER_OP("Ctrlab>PointwiseGradient")
    .Attr("kind: {'relu', 'prelu', 'affine'}")
    .Input("d_out: float")
    .Input("source: float")
    .Input("shift: float")
    .Input("slope: float")
    .Output("d_x: float")
    .Output("d_shift: float")
    .Output("d_slope: float")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle matrix, vector;
      TF_RETURN_IF_ERROR(Shapes(c, 2, &matrix, &vector));
      c->set_output(0, matrix);
      c->set_output(1, vector);
      c->set_output(2, c->input(3));
      return absl::OkStatus();
    })
    .Doc("The gradient of Ctrlab>Pointwise. `source` is its out for relu, else its x.");

class PointwiseBase : public StatusOp {
 public:
  explicit PointwiseBase(OpKernelConstruction* context) : StatusOp(context) {
    std::string kind;
    OP_REQUIRES_OK(context, context->GetAttr("kind", &kind));
    kind_ = kind == "prelu" ? kPrelu : kind == "affine" ? kAffine : kRelu;
  }

 protected:
  // Reads everything but x; `matrix` has the shape of x.
  absl::Status Read(OpKernelContext* context, const Tensor& matrix, PointwiseInput* input) const {
    const Tensor *shift, *slope;
    TF_RETURN_IF_ERROR(context->input("shift", &shift));
    TF_RETURN_IF_ERROR(context->input("slope", &slope));
    const int64_t n = matrix.dim_size(1);
    const bool sloped = kind_ != kRelu;
    TF_RETURN_IF_ERROR(CheckShape("shift", *shift, {n}));
    TF_RETURN_IF_ERROR(CheckShape("slope", *slope, {sloped ? n : 0}));
    *input = {nullptr, shift->flat<float>().data(), sloped ? slope->flat<float>().data() : nullptr, matrix.dim_size(0), n, kind_};
    return absl::OkStatus();
  }

  PointwiseKind kind_;
};

class PointwiseOp : public PointwiseBase {
 public:
  using PointwiseBase::PointwiseBase;

 private:
  absl::Status Run(OpKernelContext* context) override {
    const Tensor* x;
    PointwiseInput input;
    TF_RETURN_IF_ERROR(context->input("x", &x));
    TF_RETURN_IF_ERROR(CheckMatrix("x", *x));
    TF_RETURN_IF_ERROR(Read(context, *x, &input));
    input.x = x->flat<float>().data();
    Tensor* out;
    TF_RETURN_IF_ERROR(context->forward_input_or_allocate_output({"x"}, "out", x->shape(), &out));
    const ParallelFor pool = IntraOpPool(context);
    pointwise_kernel(&input, out->flat<float>().data(), &pool);
    return absl::OkStatus();
  }
};

class PointwiseGradientOp : public PointwiseBase {
 public:
  using PointwiseBase::PointwiseBase;

 private:
  absl::Status Run(OpKernelContext* context) override {
    const Tensor *d_out, *source;
    PointwiseInput input;
    TF_RETURN_IF_ERROR(context->input("d_out", &d_out));
    TF_RETURN_IF_ERROR(context->input("source", &source));
    TF_RETURN_IF_ERROR(CheckMatrix("d_out", *d_out));
    TF_RETURN_IF_ERROR(CheckShape("source", *source, d_out->shape()));
    TF_RETURN_IF_ERROR(Read(context, *d_out, &input));
    input.x = source->flat<float>().data();
    Tensor *d_x, *d_shift, *d_slope;
    TF_RETURN_IF_ERROR(context->allocate_output("d_shift", TensorShape({input.columns}), &d_shift));
    TF_RETURN_IF_ERROR(context->allocate_output("d_slope", TensorShape({input.slope ? input.columns : 0}), &d_slope));
    TF_RETURN_IF_ERROR(context->forward_input_or_allocate_output({"d_out"}, "d_x", d_out->shape(), &d_x));
    const PointwiseGradient gradient{d_x->flat<float>().data(), d_shift->flat<float>().data(), d_slope->flat<float>().data()};
    const ParallelFor pool = IntraOpPool(context);
    pointwise_gradient_kernel(&input, input.x, d_out->flat<float>().data(), &gradient, &pool);
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>Pointwise").Device(DEVICE_CPU), PointwiseOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>PointwiseGradient").Device(DEVICE_CPU), PointwiseGradientOp);

}  // namespace
}  // namespace ctrlab
