// Ctrlab>SharedAttention: every input is checked here, then the kernel is called through the table.

#include "kernels/registry.h"
#include "kernels/shared_attention/shared_attention.h"
#include "ops/candidates.h"
#include "ops/checks.h"
#include "ops/mlp.h"
#include "ops/op.h"
#include "ops/parallel_for.h"

namespace ctrlab {
namespace {

CTRLAB_KERNEL(shared_attention);

constexpr int64_t kMostNumbers = std::numeric_limits<int32_t>::max();

absl::Status SharedAttentionShape(InferenceContext* c) {
  ShapeHandle query, keys;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &query));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &keys));
  DimensionHandle width;
  TF_RETURN_IF_ERROR(c->Merge(c->Dim(query, 1), c->Dim(keys, 1), &width));
  c->set_output(0, c->Vector(c->UnknownDim()));
  c->set_output(1, c->Matrix(c->Dim(query, 0), width));
  return absl::OkStatus();
}

REGISTER_OP("Ctrlab>SharedAttention")
    .Attr("L: int >= 1")
    .Input("query: float")
    .Input("keys: float")
    .Input("splits: int64")
    .Input("candidates: int64")
    .Input("kernels: L * float")
    .Input("biases: L * float")
    .Output("weights: float")
    .Output("attended: float")
    .SetShapeFn(SharedAttentionShape)
    .Doc(
        "Ctrlab>Attention of many queries over one history each user; `candidates` is the number of each user's. Forward alone.");

class SharedAttentionOp : public StatusOp {
 public:
  using StatusOp::StatusOp;

  absl::Status Run(OpKernelContext* context) final {
    const Tensor &query = context->input(0), &keys = context->input(1), &splits = context->input(2);
    if (query.dims() != 2 || keys.dims() != 2 || query.dim_size(1) != keys.dim_size(1) || keys.dim_size(1) < 1 ||
        keys.dim_size(1) > kMostNumbers) {
      return InvalidArgument("The query must be [N, C] and the keys [E, C] with one C in [1, 2^31); received ",
                             query.shape().DebugString(), " and ", keys.shape().DebugString(), ".");
    }
    const int64_t rows = query.dim_size(0), width = query.dim_size(1);
    TF_RETURN_IF_ERROR(CheckSplits("the keys", splits, keys.dim_size(0)));
    Shares shares;
    TF_RETURN_IF_ERROR(ReadCandidates(context->input(3), splits, &shares));
    if (shares.rows != rows) {
      return InvalidArgument("The candidates must sum to the query's ", rows, " rows; received a sum of ", shares.rows, ".");
    }
    OpInputList kernels, biases;
    TF_RETURN_IF_ERROR(context->input_list("kernels", &kernels));
    TF_RETURN_IF_ERROR(context->input_list("biases", &biases));
    std::vector<DenseLayer> layers;
    TF_RETURN_IF_ERROR(ReadLayers(kernels, biases, 4 * width, &layers));
    Tensor *weights, *attended;
    TF_RETURN_IF_ERROR(context->allocate_output(0, TensorShape({shares.pairs}), &weights));
    TF_RETURN_IF_ERROR(context->allocate_output(1, query.shape(), &attended));
    const SharedAttentionInput input = {.query = query.flat<float>().data(),
                                        .keys = keys.flat<float>().data(),
                                        .splits = splits.flat<int64_t>().data(),
                                        .candidates = context->input(3).flat<int64_t>().data(),
                                        .users = splits.NumElements() - 1,
                                        .width = width,
                                        .layers = layers.data(),
                                        .layer_count = std::ssize(layers)};
    const ParallelFor pool = IntraOpPool(context);
    shared_attention_kernel(&input, weights->flat<float>().data(), attended->flat<float>().data(), &pool);
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>SharedAttention").Device(DEVICE_CPU), SharedAttentionOp);

}  // namespace
}  // namespace ctrlab
