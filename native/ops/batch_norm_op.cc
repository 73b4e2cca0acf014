// Ctrlab>BatchNorm and its gradient: every input is checked here, then one kernel is called through the table.

#include <cmath>
#include <initializer_list>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/registry.h"
#include "ops/checks.h"
#include "ops/op.h"
#include "ops/parallel_for.h"

namespace ctrlab {
namespace {

CTRLAB_KERNEL(batch_norm);
CTRLAB_KERNEL(batch_norm_gradient);

// Input 0 is [B, n], inputs [first, last) are [n].
absl::Status ColumnShapes(InferenceContext* c, int first, int last, ShapeHandle* matrix, ShapeHandle* vector) {
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, matrix));
  *vector = c->Vector(c->Dim(*matrix, 1));
  for (int i = first; i < last; ++i) {
    ShapeHandle input;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 1, &input));
    TF_RETURN_IF_ERROR(c->Merge(*vector, input, vector));
  }
  return absl::OkStatus();
}

REGISTER_OP("Ctrlab>BatchNorm")
    .Attr("epsilon: float")
    .Attr("momentum: float")
    .Input("product: float")
    .Input("bias: float")
    .Input("scale: float")
    .Input("shift: float")
    .Input("moving_mean: float")
    .Input("moving_variance: float")
    .Output("out: float")
    .Output("mean: float")
    .Output("variance: float")
    .Output("new_mean: float")
    .Output("new_variance: float")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle matrix, vector;
      TF_RETURN_IF_ERROR(ColumnShapes(c, 1, 6, &matrix, &vector));
      c->set_output(0, matrix);
      for (int i = 1; i < 5; ++i) c->set_output(i, vector);
      return absl::OkStatus();
    })
    .Doc("Batch normalisation, by this batch's statistics, of relu(product + bias); and the moving statistics after it.");

REGISTER_OP("Ctrlab>BatchNormGradient")
    .Attr("epsilon: float")
    .Input("product: float")
    .Input("bias: float")
    .Input("scale: float")
    .Input("mean: float")
    .Input("variance: float")
    .Input("d_out: float")
    .Output("d_product: float")
    .Output("d_bias: float")
    .Output("d_scale: float")
    .Output("d_shift: float")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle matrix, vector;
      TF_RETURN_IF_ERROR(ColumnShapes(c, 1, 5, &matrix, &vector));
      TF_RETURN_IF_ERROR(c->Merge(matrix, c->input(5), &matrix));
      c->set_output(0, matrix);
      for (int i = 1; i < 4; ++i) c->set_output(i, vector);
      return absl::OkStatus();
    })
    .Doc("The gradient of Ctrlab>BatchNorm with regard to product, bias, scale and shift.");

class BatchNormBase : public StatusOp {
 public:
  explicit BatchNormBase(OpKernelConstruction* context) : StatusOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("epsilon", &epsilon_));
    OP_REQUIRES(context, std::isfinite(epsilon_) && epsilon_ > 0,
                InvalidArgument("epsilon must be positive, or a constant column divides by 0; received ", epsilon_, "."));
  }

 protected:
  absl::Status Read(OpKernelContext* context, BatchNormInput* input) const {
    const Tensor* product;
    TF_RETURN_IF_ERROR(context->input("product", &product));
    TF_RETURN_IF_ERROR(CheckMatrix("product", *product));
    *input = {product->flat<float>().data(), nullptr, nullptr, nullptr, product->dim_size(0), product->dim_size(1), epsilon_};
    TF_RETURN_IF_ERROR(Vector(context, "bias", input->columns, &input->bias));
    return Vector(context, "scale", input->columns, &input->scale);
  }

  static absl::Status Vector(OpKernelContext* context, const char* name, int64_t columns, const float** data) {
    const Tensor* tensor;
    TF_RETURN_IF_ERROR(context->input(name, &tensor));
    TF_RETURN_IF_ERROR(CheckShape(name, *tensor, {columns}));
    *data = tensor->flat<float>().data();
    return absl::OkStatus();
  }

  static absl::Status NewVector(OpKernelContext* context, const char* name, int64_t columns, float** data) {
    Tensor* tensor;
    TF_RETURN_IF_ERROR(context->allocate_output(name, TensorShape({columns}), &tensor));
    *data = tensor->flat<float>().data();
    return absl::OkStatus();
  }

 private:
  float epsilon_;
};

class BatchNormOp : public BatchNormBase {
 public:
  explicit BatchNormOp(OpKernelConstruction* context) : BatchNormBase(context) {
    OP_REQUIRES_OK(context, context->GetAttr("momentum", &momentum_));
    OP_REQUIRES(context, momentum_ >= 0 && momentum_ <= 1,
                InvalidArgument("momentum must be in [0, 1]; received ", momentum_, "."));
  }

 private:
  absl::Status Run(OpKernelContext* context) override {
    BatchNormInput input;
    BatchNormMoving moving{nullptr, nullptr, nullptr, nullptr, momentum_};
    float *mean, *variance;
    TF_RETURN_IF_ERROR(Read(context, &input));
    const int64_t n = input.columns;
    TF_RETURN_IF_ERROR(Vector(context, "shift", n, &input.shift));
    TF_RETURN_IF_ERROR(Vector(context, "moving_mean", n, &moving.mean));
    TF_RETURN_IF_ERROR(Vector(context, "moving_variance", n, &moving.variance));
    TF_RETURN_IF_ERROR(NewVector(context, "mean", n, &mean));
    TF_RETURN_IF_ERROR(NewVector(context, "variance", n, &variance));
    TF_RETURN_IF_ERROR(NewVector(context, "new_mean", n, &moving.new_mean));
    TF_RETURN_IF_ERROR(NewVector(context, "new_variance", n, &moving.new_variance));
    Tensor* out;
    TF_RETURN_IF_ERROR(context->allocate_output("out", context->input(0).shape(), &out));
    const ParallelFor pool = IntraOpPool(context);
    batch_norm_kernel(&input, &moving, out->flat<float>().data(), mean, variance, &pool);
    return absl::OkStatus();
  }

  float momentum_;
};

class BatchNormGradientOp : public BatchNormBase {
 public:
  using BatchNormBase::BatchNormBase;

 private:
  absl::Status Run(OpKernelContext* context) override {
    BatchNormInput input;
    BatchNormGradient gradient;
    const float *mean, *variance;
    const Tensor* d_out;
    TF_RETURN_IF_ERROR(Read(context, &input));
    const int64_t n = input.columns;
    TF_RETURN_IF_ERROR(Vector(context, "mean", n, &mean));
    TF_RETURN_IF_ERROR(Vector(context, "variance", n, &variance));
    TF_RETURN_IF_ERROR(context->input("d_out", &d_out));
    TF_RETURN_IF_ERROR(CheckShape("d_out", *d_out, context->input(0).shape()));
    TF_RETURN_IF_ERROR(NewVector(context, "d_bias", n, &gradient.d_bias));
    TF_RETURN_IF_ERROR(NewVector(context, "d_scale", n, &gradient.d_scale));
    TF_RETURN_IF_ERROR(NewVector(context, "d_shift", n, &gradient.d_shift));
    Tensor* d_product;
    TF_RETURN_IF_ERROR(context->forward_input_or_allocate_output({"d_out"}, "d_product", d_out->shape(), &d_product));
    gradient.d_product = d_product->flat<float>().data();
    const ParallelFor pool = IntraOpPool(context);
    batch_norm_gradient_kernel(&input, mean, variance, d_out->flat<float>().data(), &gradient, &pool);
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>BatchNorm").Device(DEVICE_CPU), BatchNormOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>BatchNormGradient").Device(DEVICE_CPU), BatchNormGradientOp);

}  // namespace
}  // namespace ctrlab
