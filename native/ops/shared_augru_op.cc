// Ctrlab>SharedAugru: every input is checked here, then the kernel is called through the table.

#include "kernels/registry.h"
#include "kernels/shared_augru/shared_augru.h"
#include "ops/candidates.h"
#include "ops/checks.h"
#include "ops/op.h"
#include "ops/parallel_for.h"

namespace ctrlab {
namespace {

CTRLAB_KERNEL(shared_augru);

absl::Status SharedAugruShape(InferenceContext* c) {
  ShapeHandle x, bias;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &x));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(6), 1, &bias));
  c->set_output(0, c->Matrix(c->UnknownDim(), c->Dim(bias, 0)));
  return absl::OkStatus();
}

REGISTER_OP("Ctrlab>SharedAugru")
    .Input("x: float")
    .Input("splits: int64")
    .Input("candidates: int64")
    .Input("gates_kernel: float")
    .Input("gates_bias: float")
    .Input("candidate_kernel: float")
    .Input("candidate_bias: float")
    .Input("attention: float")
    .Output("last: float")
    .SetShapeFn(SharedAugruShape)
    .Doc("The last states of an AUGRU of many candidates over one history each user; `candidates` is the number of each user's.");

class SharedAugruOp : public StatusOp {
 public:
  using StatusOp::StatusOp;

  absl::Status Run(OpKernelContext* context) final {
    const Tensor &x = context->input(0), &splits = context->input(1), &bias = context->input(6);
    if (x.dims() != 2 || x.dim_size(1) < 1) {
      return InvalidArgument("x must be [events, inputs] with at least one input; received ", x.shape().DebugString(), ".");
    }
    if (bias.dims() != 1 || bias.dim_size(0) < 1) {
      return InvalidArgument("The candidate's bias must be [hidden] with at least one number; received ",
                             bias.shape().DebugString(), ".");
    }
    const int64_t C = x.dim_size(1), H = bias.dim_size(0);
    TF_RETURN_IF_ERROR(CheckSplits("the histories", splits, x.dim_size(0)));
    Shares shares;
    TF_RETURN_IF_ERROR(ReadCandidates(context->input(2), splits, &shares));
    TF_RETURN_IF_ERROR(CheckShape("The gates' kernel", context->input(3), {C + H, 2 * H}));
    TF_RETURN_IF_ERROR(CheckShape("The gates' bias", context->input(4), {2 * H}));
    TF_RETURN_IF_ERROR(CheckShape("The candidate's kernel", context->input(5), {C + H, H}));
    TF_RETURN_IF_ERROR(CheckShape("The attention, of each pair of a candidate and an event,", context->input(7), {shares.pairs}));
    Tensor* last;
    TF_RETURN_IF_ERROR(context->allocate_output(0, TensorShape({shares.rows, H}), &last));
    const auto floats = [&](int i) { return context->input(i).flat<float>().data(); };
    const SharedAugruInput input = {.x = floats(0),
                                    .splits = splits.flat<int64_t>().data(),
                                    .candidates = context->input(2).flat<int64_t>().data(),
                                    .gates_kernel = floats(3),
                                    .gates_bias = floats(4),
                                    .candidate_kernel = floats(5),
                                    .candidate_bias = floats(6),
                                    .attention = floats(7),
                                    .users = splits.NumElements() - 1,
                                    .inputs = C,
                                    .hidden = H};
    const ParallelFor pool = IntraOpPool(context);
    shared_augru_kernel(&input, last->flat<float>().data(), &pool);
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>SharedAugru").Device(DEVICE_CPU), SharedAugruOp);

}  // namespace
}  // namespace ctrlab
