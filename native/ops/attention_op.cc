// Ctrlab>Attention and its gradient: every input is checked here, then the kernels are called through the table.

#include <limits>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/registry.h"
#include "ops/checks.h"
#include "ops/mlp.h"
#include "ops/op.h"
#include "ops/parallel_for.h"

namespace ctrlab {
namespace {

CTRLAB_KERNEL(attention_scores);
CTRLAB_KERNEL(attention_pool);
CTRLAB_KERNEL(attention_gradient);

using tensorflow::DT_FLOAT;

constexpr int64_t kMostNumbers = std::numeric_limits<int32_t>::max();

absl::Status AttentionShape(InferenceContext* c) {
  ShapeHandle query, keys;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &query));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &keys));
  DimensionHandle width;
  TF_RETURN_IF_ERROR(c->Merge(c->Dim(query, 1), c->Dim(keys, 1), &width));
  c->set_output(0, c->Vector(c->Dim(keys, 0)));
  c->set_output(1, c->Matrix(c->Dim(query, 0), width));
  c->set_output(2, c->Matrix(c->Dim(keys, 0), c->UnknownDim()));
  return absl::OkStatus();
}

absl::Status AttentionGradientShape(InferenceContext* c) {
  int layers;
  TF_RETURN_IF_ERROR(c->GetAttr("L", &layers));
  c->set_output(0, c->input(0));
  c->set_output(1, c->input(1));
  for (int l = 0; l < 2 * layers; ++l) c->set_output(2 + l, c->input(3 + l));
  return absl::OkStatus();
}

REGISTER_OP("Ctrlab>Attention")
    .Attr("L: int >= 1")
    .Input("query: float")
    .Input("keys: float")
    .Input("splits: int64")
    .Input("kernels: L * float")
    .Input("biases: L * float")
    .Output("weights: float")
    .Output("attended: float")
    .Output("kept: float")
    .SetShapeFn(AttentionShape)
    .Doc("Softmax over each row's own events of MLP([q, k, q - k, q * k]), and the events' sum with those weights.");

REGISTER_OP("Ctrlab>AttentionGradient")
    .Attr("L: int >= 1")
    .Input("query: float")
    .Input("keys: float")
    .Input("splits: int64")
    .Input("kernels: L * float")
    .Input("biases: L * float")
    .Input("weights: float")
    .Input("kept: float")
    .Input("d_weights: float")
    .Input("d_attended: float")
    .Output("d_query: float")
    .Output("d_keys: float")
    .Output("d_kernels: L * float")
    .Output("d_biases: L * float")
    .SetShapeFn(AttentionGradientShape)
    .Doc("The gradient of Ctrlab>Attention.");

// The inputs of both ops. The tensors must outlive it.
struct Batch {
  std::vector<DenseLayer> layers;
  AttentionInput input;
  int64_t events;
};

absl::Status Read(OpKernelContext* context, Batch* batch) {
  const Tensor *query, *keys, *splits;
  OpInputList kernels, biases;
  TF_RETURN_IF_ERROR(context->input("query", &query));
  TF_RETURN_IF_ERROR(context->input("keys", &keys));
  TF_RETURN_IF_ERROR(context->input("splits", &splits));
  TF_RETURN_IF_ERROR(context->input_list("kernels", &kernels));
  TF_RETURN_IF_ERROR(context->input_list("biases", &biases));
  if (query->dims() != 2 || keys->dims() != 2 || query->dim_size(1) != keys->dim_size(1) || keys->dim_size(1) < 1 ||
      keys->dim_size(1) > kMostNumbers) {
    return InvalidArgument("The query must be [B, C] and the keys [N, C] with one C in [1, 2^31); received ",
                           query->shape().DebugString(), " and ", keys->shape().DebugString(), ".");
  }
  const int64_t rows = query->dim_size(0), width = query->dim_size(1);
  batch->events = keys->dim_size(0);
  TF_RETURN_IF_ERROR(CheckSplits("the keys", *splits, batch->events));
  if (splits->NumElements() != rows + 1) {
    return InvalidArgument("The splits must be one more than the query's ", rows, " rows; received ", splits->NumElements(), ".");
  }
  TF_RETURN_IF_ERROR(ReadLayers(kernels, biases, 4 * width, &batch->layers));
  batch->input = {query->flat<float>().data(), keys->flat<float>().data(), splits->flat<int64_t>().data(), rows, width,
                  batch->layers.data(),        std::ssize(batch->layers)};
  return absl::OkStatus();
}

TensorShape KeptShape(const Batch& batch) {
  return TensorShape({batch.events, Kept(batch.layers.data(), std::ssize(batch.layers))});
}

class AttentionBase : public StatusOp {
 public:
  using StatusOp::StatusOp;

  absl::Status Run(OpKernelContext* context) final {
    Batch batch;
    TF_RETURN_IF_ERROR(Read(context, &batch));
    return RunBatch(context, batch);
  }

 protected:
  virtual absl::Status RunBatch(OpKernelContext* context, const Batch& batch) = 0;
};

class AttentionOp : public AttentionBase {
 public:
  using AttentionBase::AttentionBase;

 private:
  absl::Status RunBatch(OpKernelContext* context, const Batch& batch) override {
    Tensor scores, *weights, *attended, *kept;
    const TensorShape events({batch.events});
    TF_RETURN_IF_ERROR(context->allocate_temp(DT_FLOAT, events, &scores));
    TF_RETURN_IF_ERROR(context->allocate_output("weights", events, &weights));
    TF_RETURN_IF_ERROR(context->allocate_output("attended", TensorShape({batch.input.rows, batch.input.width}), &attended));
    TF_RETURN_IF_ERROR(context->allocate_output("kept", KeptShape(batch), &kept));
    const ParallelFor pool = IntraOpPool(context);
    attention_scores_kernel(&batch.input, scores.flat<float>().data(), kept->flat<float>().data(), &pool);
    attention_pool_kernel(&batch.input, scores.flat<float>().data(), weights->flat<float>().data(),
                          attended->flat<float>().data(), &pool);
    return absl::OkStatus();
  }
};

class AttentionGradientOp : public AttentionBase {
 public:
  using AttentionBase::AttentionBase;

 private:
  absl::Status RunBatch(OpKernelContext* context, const Batch& batch) override {
    const std::pair<const char*, TensorShape> inputs[] = {
        {"weights", TensorShape({batch.events})},
        {"kept", KeptShape(batch)},
        {"d_weights", TensorShape({batch.events})},
        {"d_attended", TensorShape({batch.input.rows, batch.input.width})},
    };
    const float* data[4];
    for (int i = 0; i < 4; ++i) {
      const Tensor* tensor;
      TF_RETURN_IF_ERROR(context->input(inputs[i].first, &tensor));
      if (tensor->shape() != inputs[i].second) {
        return InvalidArgument(inputs[i].first, " must be ", inputs[i].second.DebugString(), "; received ",
                               tensor->shape().DebugString(), ".");
      }
      data[i] = tensor->flat<float>().data();
    }
    Tensor *d_query, *d_keys;
    TF_RETURN_IF_ERROR(context->allocate_output("d_query", TensorShape({batch.input.rows, batch.input.width}), &d_query));
    TF_RETURN_IF_ERROR(context->allocate_output("d_keys", TensorShape({batch.events, batch.input.width}), &d_keys));
    std::vector<DenseGradient> layers;
    TF_RETURN_IF_ERROR(AllocateGradients(context, batch.layers, &layers));
    const AttentionGradient gradient{d_query->flat<float>().data(), d_keys->flat<float>().data(), layers.data()};
    const ParallelFor pool = IntraOpPool(context);
    attention_gradient_kernel(&batch.input, data[0], data[1], data[2], data[3], &gradient, &pool);
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>Attention").Device(DEVICE_CPU), AttentionOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>AttentionGradient").Device(DEVICE_CPU), AttentionGradientOp);

}  // namespace
}  // namespace ctrlab
