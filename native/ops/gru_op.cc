// Ctrlab>Gru and its gradient: every input is checked here, then one kernel is called through the table.

#include "kernels/gru/gru.h"
#include "kernels/registry.h"
#include "ops/checks.h"
#include "ops/op.h"
#include "ops/parallel_for.h"

namespace ctrlab {
namespace {

CTRLAB_KERNEL(gru);
CTRLAB_KERNEL(gru_gradient);

absl::Status GruShape(InferenceContext* c) {
  ShapeHandle x, splits, bias;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &x));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &splits));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(5), 1, &bias));
  DimensionHandle rows, all_gates;
  TF_RETURN_IF_ERROR(c->Subtract(c->Dim(splits, 0), 1, &rows));
  TF_RETURN_IF_ERROR(c->Multiply(c->Dim(bias, 0), 3, &all_gates));
  c->set_output(0, c->Matrix(c->Dim(x, 0), c->Dim(bias, 0)));
  c->set_output(1, c->Matrix(rows, c->Dim(bias, 0)));
  c->set_output(2, c->Matrix(c->Dim(x, 0), all_gates));
  return absl::OkStatus();
}

absl::Status GruGradientShape(InferenceContext* c) {
  int attended;
  TF_RETURN_IF_ERROR(c->GetAttr("A", &attended));
  c->set_output(0, c->input(0));
  for (int i = 1; i <= 4 + attended; ++i) c->set_output(i, c->input(i + 1));
  return absl::OkStatus();
}

REGISTER_OP("Ctrlab>Gru")
    .Attr("A: int >= 0 = 0")
    .Input("x: float")
    .Input("splits: int64")
    .Input("gates_kernel: float")
    .Input("gates_bias: float")
    .Input("candidate_kernel: float")
    .Input("candidate_bias: float")
    .Input("attention: A * float")
    .Output("outputs: float")
    .Output("last: float")
    .Output("gates: float")
    .SetShapeFn(GruShape)
    .Doc("A GRU over ragged histories, an AUGRU where A is 1. `gates` (reset, update, candidate) is kept for the gradient.");

REGISTER_OP("Ctrlab>GruGradient")
    .Attr("A: int >= 0 = 0")
    .Input("x: float")
    .Input("splits: int64")
    .Input("gates_kernel: float")
    .Input("gates_bias: float")
    .Input("candidate_kernel: float")
    .Input("candidate_bias: float")
    .Input("attention: A * float")
    .Input("outputs: float")
    .Input("gates: float")
    .Input("d_outputs: float")
    .Input("d_last: float")
    .Output("d_x: float")
    .Output("d_gates_kernel: float")
    .Output("d_gates_bias: float")
    .Output("d_candidate_kernel: float")
    .Output("d_candidate_bias: float")
    .Output("d_attention: A * float")
    .SetShapeFn(GruGradientShape)
    .Doc("The gradient of Ctrlab>Gru.");

// The op's inputs, checked. The tensors must outlive it.
struct Batch {
  GruInput input{};
  int64_t positions = 0;

  absl::Status Read(OpKernelContext* context) {
    const Tensor &x = context->input(0), &splits = context->input(1), &bias = context->input(5);
    if (x.dims() != 2 || x.dim_size(1) < 1) {
      return InvalidArgument("x must be [positions, inputs] with at least one input; received ", x.shape().DebugString(), ".");
    }
    if (bias.dims() != 1 || bias.dim_size(0) < 1) {
      return InvalidArgument("The candidate's bias must be [hidden] with at least one number; received ",
                             bias.shape().DebugString(), ".");
    }
    const int64_t C = x.dim_size(1), H = bias.dim_size(0);
    positions = x.dim_size(0);
    TF_RETURN_IF_ERROR(CheckSplits("the histories", splits, positions));
    TF_RETURN_IF_ERROR(CheckShape("The gates' kernel", context->input(2), {C + H, 2 * H}));
    TF_RETURN_IF_ERROR(CheckShape("The gates' bias", context->input(3), {2 * H}));
    TF_RETURN_IF_ERROR(CheckShape("The candidate's kernel", context->input(4), {C + H, H}));
    OpInputList attention;
    TF_RETURN_IF_ERROR(context->input_list("attention", &attention));
    if (attention.size() > 0) TF_RETURN_IF_ERROR(CheckShape("The attention", attention[0], {positions}));
    const auto floats = [&](int i) { return context->input(i).flat<float>().data(); };
    input = {.x = floats(0),
             .splits = splits.flat<int64_t>().data(),
             .gates_kernel = floats(2),
             .gates_bias = floats(3),
             .candidate_kernel = floats(4),
             .candidate_bias = floats(5),
             .attention = attention.size() > 0 ? attention[0].flat<float>().data() : nullptr,
             .rows = splits.NumElements() - 1,
             .inputs = C,
             .hidden = H};
    return absl::OkStatus();
  }
};

// Reads a batch, then runs a kernel, whose calling thread may fail to allocate scratch memory.
class GruBase : public StatusOp {
 public:
  explicit GruBase(OpKernelConstruction* context) : StatusOp(context) {
    int attended;
    OP_REQUIRES_OK(context, context->GetAttr("A", &attended));
    OP_REQUIRES(context, attended <= 1, InvalidArgument("There must be one attention or none; received ", attended, "."));
  }

  absl::Status Run(OpKernelContext* context) final {
    Batch batch;
    TF_RETURN_IF_ERROR(batch.Read(context));
    return RunBatch(context, batch);
  }

 protected:
  virtual absl::Status RunBatch(OpKernelContext* context, const Batch& batch) = 0;
};

class GruOp : public GruBase {
 public:
  using GruBase::GruBase;

 private:
  absl::Status RunBatch(OpKernelContext* context, const Batch& batch) override {
    const int64_t H = batch.input.hidden;
    Tensor *outputs, *last, *gates;
    TF_RETURN_IF_ERROR(context->allocate_output(0, TensorShape({batch.positions, H}), &outputs));
    TF_RETURN_IF_ERROR(context->allocate_output(1, TensorShape({batch.input.rows, H}), &last));
    TF_RETURN_IF_ERROR(context->allocate_output(2, TensorShape({batch.positions, 3 * H}), &gates));
    const ParallelFor pool = IntraOpPool(context);
    gru_kernel(&batch.input, outputs->flat<float>().data(), last->flat<float>().data(), gates->flat<float>().data(), &pool);
    return absl::OkStatus();
  }
};

class GruGradientOp : public GruBase {
 public:
  using GruBase::GruBase;

 private:
  absl::Status RunBatch(OpKernelContext* context, const Batch& batch) override {
    const Tensor *outputs, *gates, *d_outputs, *d_last;
    TF_RETURN_IF_ERROR(context->input("outputs", &outputs));
    TF_RETURN_IF_ERROR(context->input("gates", &gates));
    TF_RETURN_IF_ERROR(context->input("d_outputs", &d_outputs));
    TF_RETURN_IF_ERROR(context->input("d_last", &d_last));
    const int64_t H = batch.input.hidden;
    TF_RETURN_IF_ERROR(CheckShape("outputs", *outputs, {batch.positions, H}));
    TF_RETURN_IF_ERROR(CheckShape("gates", *gates, {batch.positions, 3 * H}));
    TF_RETURN_IF_ERROR(CheckShape("d_outputs", *d_outputs, {batch.positions, H}));
    TF_RETURN_IF_ERROR(CheckShape("d_last", *d_last, {batch.input.rows, H}));
    float* made[6] = {};
    for (int i = 0; i < context->num_outputs(); ++i) {
      Tensor* output;
      TF_RETURN_IF_ERROR(context->allocate_output(i, context->input(i == 0 ? 0 : i + 1).shape(), &output));
      made[i] = output->flat<float>().data();
    }
    const GruGradient gradient{made[0], made[1], made[2], made[3], made[4], made[5]};
    const ParallelFor pool = IntraOpPool(context);
    gru_gradient_kernel(&batch.input, outputs->flat<float>().data(), gates->flat<float>().data(), d_outputs->flat<float>().data(),
                        d_last->flat<float>().data(), &gradient, &pool);
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>Gru").Device(DEVICE_CPU), GruOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>GruGradient").Device(DEVICE_CPU), GruGradientOp);

}  // namespace
}  // namespace ctrlab
