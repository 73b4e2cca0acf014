// Ctrlab>Experts, Ctrlab>Mixture and their gradients: inputs are checked here, then one kernel is called.

#include <vector>

#include "kernels/experts/experts.h"
#include "kernels/registry.h"
#include "ops/checks.h"
#include "ops/op.h"
#include "ops/parallel_for.h"

namespace ctrlab {
namespace {

CTRLAB_KERNEL(experts);
CTRLAB_KERNEL(experts_gradient);
CTRLAB_KERNEL(mixture);
CTRLAB_KERNEL(mixture_gradient);

constexpr int64_t kOutputsMultiple = 16;
constexpr int64_t kMostTasks = 1 << 16;

absl::Status ExpertsShape(InferenceContext* c) {
  int layers;
  TF_RETURN_IF_ERROR(c->GetAttr("L", &layers));
  ShapeHandle x;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &x));
  for (int l = 0; l < layers; ++l) {
    ShapeHandle kernel;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(1 + l), 3, &kernel));
    c->set_output(l, c->MakeShape({c->Dim(kernel, 0), c->Dim(x, 0), c->Dim(kernel, 2)}));
  }
  return absl::OkStatus();
}

absl::Status ExpertsGradientShape(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->input(i));
  return absl::OkStatus();
}

absl::Status MixtureShape(InferenceContext* c) {
  int64_t tasks;
  TF_RETURN_IF_ERROR(c->GetAttr("tasks", &tasks));
  ShapeHandle experts, logits;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 3, &experts));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &logits));
  c->set_output(0, logits);
  c->set_output(1, c->MakeShape({c->MakeDim(tasks), c->Dim(experts, 1), c->Dim(experts, 2)}));
  return absl::OkStatus();
}

absl::Status MixtureGradientShape(InferenceContext* c) {
  c->set_output(0, c->input(0));
  c->set_output(1, c->input(1));
  return absl::OkStatus();
}

REGISTER_OP("Ctrlab>Experts")
    .Attr("L: int >= 1")
    .Input("x: float")
    .Input("kernels: L * float")
    .Input("biases: L * float")
    .Output("hidden: L * float")
    .SetShapeFn(ExpertsShape)
    .Doc("E towers of L dense layers with ReLU on x [B, I]; kernels [E, in, out], biases [E, 1, out], hidden [E, B, out].");

REGISTER_OP("Ctrlab>ExpertsGradient")
    .Attr("L: int >= 1")
    .Input("x: float")
    .Input("kernels: L * float")
    .Input("biases: L * float")
    .Input("hidden: L * float")
    .Input("d_out: float")
    .Output("d_x: float")
    .Output("d_kernels: L * float")
    .Output("d_biases: L * float")
    .SetShapeFn(ExpertsGradientShape)
    .Doc("The gradient of Ctrlab>Experts' last output.");

REGISTER_OP("Ctrlab>Mixture")
    .Attr("tasks: int >= 1")
    .Input("experts: float")
    .Input("logits: float")
    .Output("gates: float")
    .Output("out: float")
    .SetShapeFn(MixtureShape)
    .Doc("experts [E, B, H] mixed for each task by a softmax over its E of logits [B, K * E]: out [K, B, H].");

REGISTER_OP("Ctrlab>MixtureGradient")
    .Attr("tasks: int >= 1")
    .Input("experts: float")
    .Input("gates: float")
    .Input("d_out: float")
    .Output("d_experts: float")
    .Output("d_logits: float")
    .SetShapeFn(MixtureGradientShape)
    .Doc("The gradient of Ctrlab>Mixture's out.");

// The inputs of both of the experts' ops, in the form that kernels take. The tensors must outlive it.
struct Towers {
  std::vector<const float*> kernels, biases;
  std::vector<int64_t> sizes;
  ExpertsInput input;
  OpInputList kernel_tensors, bias_tensors;

  absl::Status Read(OpKernelContext* context) {
    const Tensor& x = context->input(0);
    TF_RETURN_IF_ERROR(context->input_list("kernels", &kernel_tensors));
    TF_RETURN_IF_ERROR(context->input_list("biases", &bias_tensors));
    if (x.dims() != 2 || x.dim_size(1) < 1) {
      return InvalidArgument("x must be [B, I] with I at least 1; received ", x.shape().DebugString(), ".");
    }
    sizes.push_back(x.dim_size(1));
    for (int l = 0; l < kernel_tensors.size(); ++l) TF_RETURN_IF_ERROR(ReadLayer(l, kernel_tensors[l], bias_tensors[l]));
    input = {x.flat<float>().data(),        kernels.data(), biases.data(), sizes.data(), std::ssize(kernels),
             kernel_tensors[0].dim_size(0), x.dim_size(0)};
    return absl::OkStatus();
  }

  TensorShape HiddenShape(int64_t l) const { return TensorShape({input.experts, input.rows, sizes[l + 1]}); }

 private:
  absl::Status ReadLayer(int l, const Tensor& kernel, const Tensor& bias) {
    const TensorShape& shape = kernel.shape();
    if (shape.dims() != 3 || shape.dim_size(0) == 0 || shape.dim_size(1) != sizes[l] ||
        (l > 0 && shape.dim_size(0) != kernel_tensors[0].dim_size(0))) {
      return InvalidArgument("The kernel of layer ", l, " must be [E, ", sizes[l],
                             ", out], with the same E >= 1 in each layer; received ", shape.DebugString(), ".");
    }
    if (shape.dim_size(2) == 0 || shape.dim_size(2) % kOutputsMultiple != 0) {
      return InvalidArgument("The outputs of layer ", l, " must be a multiple of ", kOutputsMultiple, "; received ",
                             shape.dim_size(2), ".");
    }
    TF_RETURN_IF_ERROR(CheckShape(absl::StrCat("The bias of layer ", l), bias, {shape.dim_size(0), 1, shape.dim_size(2)}));
    sizes.push_back(shape.dim_size(2));
    kernels.push_back(kernel.flat<float>().data());
    biases.push_back(bias.flat<float>().data());
    return absl::OkStatus();
  }
};

class ExpertsOp : public StatusOp {
 public:
  using StatusOp::StatusOp;

  absl::Status Run(OpKernelContext* context) override {
    Towers towers;
    TF_RETURN_IF_ERROR(towers.Read(context));
    OpOutputList outputs;
    TF_RETURN_IF_ERROR(context->output_list("hidden", &outputs));
    std::vector<float*> hidden(outputs.size());
    for (int l = 0; l < outputs.size(); ++l) {
      Tensor* layer;
      TF_RETURN_IF_ERROR(outputs.allocate(l, towers.HiddenShape(l), &layer));
      hidden[l] = layer->flat<float>().data();
    }
    const ParallelFor pool = IntraOpPool(context);
    experts_kernel(&towers.input, hidden.data(), &pool);
    return absl::OkStatus();
  }
};

class ExpertsGradientOp : public StatusOp {
 public:
  using StatusOp::StatusOp;

  absl::Status Run(OpKernelContext* context) override {
    Towers towers;
    TF_RETURN_IF_ERROR(towers.Read(context));
    return RunTowers(context, towers);
  }

 private:
  absl::Status RunTowers(OpKernelContext* context, const Towers& towers) {
    const ExpertsInput& input = towers.input;
    OpInputList layers;
    const Tensor* d_out;
    TF_RETURN_IF_ERROR(context->input_list("hidden", &layers));
    TF_RETURN_IF_ERROR(context->input("d_out", &d_out));
    std::vector<const float*> hidden;
    for (int l = 0; l < layers.size(); ++l) {
      TF_RETURN_IF_ERROR(CheckShape("Each layer's hidden numbers", layers[l], towers.HiddenShape(l)));
      hidden.push_back(layers[l].flat<float>().data());
    }
    TF_RETURN_IF_ERROR(CheckShape("d_out", *d_out, towers.HiddenShape(input.layers - 1)));
    Tensor *d_x, scratch;
    OpOutputList kernels, biases;
    TF_RETURN_IF_ERROR(context->allocate_output("d_x", context->input(0).shape(), &d_x));
    TF_RETURN_IF_ERROR(context->output_list("d_kernels", &kernels));
    TF_RETURN_IF_ERROR(context->output_list("d_biases", &biases));
    std::vector<float*> d_kernels, d_biases;
    for (int l = 0; l < layers.size(); ++l) {
      Tensor *d_kernel, *d_bias;
      TF_RETURN_IF_ERROR(kernels.allocate(l, towers.kernel_tensors[l].shape(), &d_kernel));
      TF_RETURN_IF_ERROR(biases.allocate(l, towers.bias_tensors[l].shape(), &d_bias));
      d_kernels.push_back(d_kernel->flat<float>().data());
      d_biases.push_back(d_bias->flat<float>().data());
    }
    TF_RETURN_IF_ERROR(context->allocate_temp(tensorflow::DT_FLOAT, TensorShape({ExpertsScratch(input)}), &scratch));
    const ParallelFor pool = IntraOpPool(context);
    experts_gradient_kernel(&input, hidden.data(), d_out->flat<float>().data(), scratch.flat<float>().data(),
                            d_x->flat<float>().data(), d_kernels.data(), d_biases.data(), &pool);
    return absl::OkStatus();
  }
};

// Reads experts [E, B, H] and `gates` [B, K * E], which are logits or softmax outputs.
absl::Status ReadMixture(const Tensor& experts, const Tensor& gates, int64_t tasks, MixtureInput* input) {
  if (tasks > kMostTasks) return InvalidArgument("There must be at most ", kMostTasks, " tasks; received ", tasks, ".");
  if (experts.dims() != 3 || experts.dim_size(0) == 0) {
    return InvalidArgument("The experts must be [E, B, H] with E at least 1; received ", experts.shape().DebugString(), ".");
  }
  *input = {experts.flat<float>().data(), gates.flat<float>().data(), experts.dim_size(1), experts.dim_size(0), tasks,
            experts.dim_size(2)};
  return CheckShape("The gates, tasks times experts a row,", gates, {input->rows, tasks * input->expert_count});
}

class MixtureOp : public StatusOp {
 public:
  explicit MixtureOp(OpKernelConstruction* context) : StatusOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("tasks", &tasks_));
  }

  absl::Status Run(OpKernelContext* context) override {
    MixtureInput input;
    TF_RETURN_IF_ERROR(ReadMixture(context->input(0), context->input(1), tasks_, &input));
    Tensor *gates, *out;
    TF_RETURN_IF_ERROR(context->allocate_output("gates", context->input(1).shape(), &gates));
    TF_RETURN_IF_ERROR(context->allocate_output("out", TensorShape({tasks_, input.rows, input.width}), &out));
    const ParallelFor pool = IntraOpPool(context);
    mixture_kernel(&input, gates->flat<float>().data(), out->flat<float>().data(), &pool);
    return absl::OkStatus();
  }

 private:
  int64_t tasks_;
};

class MixtureGradientOp : public StatusOp {
 public:
  explicit MixtureGradientOp(OpKernelConstruction* context) : StatusOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("tasks", &tasks_));
  }

  absl::Status Run(OpKernelContext* context) override {
    MixtureInput input;
    const Tensor &experts = context->input(0), &gates = context->input(1), &d_out = context->input(2);
    TF_RETURN_IF_ERROR(ReadMixture(experts, gates, tasks_, &input));
    TF_RETURN_IF_ERROR(CheckShape("d_out", d_out, {tasks_, input.rows, input.width}));
    Tensor *d_experts, *d_logits;
    TF_RETURN_IF_ERROR(context->allocate_output("d_experts", experts.shape(), &d_experts));
    TF_RETURN_IF_ERROR(context->allocate_output("d_logits", gates.shape(), &d_logits));
    const ParallelFor pool = IntraOpPool(context);
    mixture_gradient_kernel(&input, input.logits, d_out.flat<float>().data(), d_experts->flat<float>().data(),
                            d_logits->flat<float>().data(), &pool);
    return absl::OkStatus();
  }

 private:
  int64_t tasks_;
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>Experts").Device(DEVICE_CPU), ExpertsOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>ExpertsGradient").Device(DEVICE_CPU), ExpertsGradientOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>Mixture").Device(DEVICE_CPU), MixtureOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>MixtureGradient").Device(DEVICE_CPU), MixtureGradientOp);

}  // namespace
}  // namespace ctrlab
