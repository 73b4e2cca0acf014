// Ctrlab>Auxiliary: every input is checked here, then the kernel is called through the table.

#include <vector>

#include "kernels/auxiliary/auxiliary.h"
#include "kernels/registry.h"
#include "ops/checks.h"
#include "ops/mlp.h"
#include "ops/op.h"
#include "ops/parallel_for.h"

namespace ctrlab {
namespace {

CTRLAB_KERNEL(auxiliary);

absl::Status AuxiliaryShape(InferenceContext* c) {
  int layers;
  TF_RETURN_IF_ERROR(c->GetAttr("L", &layers));
  c->set_output(0, c->Scalar());
  for (int i = 0; i < 3; ++i) c->set_output(1 + i, c->input(i));
  for (int l = 0; l < 2 * layers; ++l) c->set_output(4 + l, c->input(4 + l));
  return absl::OkStatus();
}

REGISTER_OP("Ctrlab>Auxiliary")
    .Attr("L: int >= 1")
    .Input("interests: float")
    .Input("clicked: float")
    .Input("skipped: float")
    .Input("splits: int64")
    .Input("kernels: L * float")
    .Input("biases: L * float")
    .Output("loss: float")
    .Output("d_interests: float")
    .Output("d_clicked: float")
    .Output("d_skipped: float")
    .Output("d_kernels: L * float")
    .Output("d_biases: L * float")
    .SetShapeFn(AuxiliaryShape)
    .Doc("DIEN's auxiliary loss over the events that have a next one, and its gradient, in one pass.");

class AuxiliaryOp : public StatusOp {
 public:
  using StatusOp::StatusOp;

 private:
  absl::Status Run(OpKernelContext* context) override {
    const Tensor *interests, *clicked, *skipped, *splits;
    OpInputList kernels, biases;
    TF_RETURN_IF_ERROR(context->input("interests", &interests));
    TF_RETURN_IF_ERROR(context->input("clicked", &clicked));
    TF_RETURN_IF_ERROR(context->input("skipped", &skipped));
    TF_RETURN_IF_ERROR(context->input("splits", &splits));
    TF_RETURN_IF_ERROR(context->input_list("kernels", &kernels));
    TF_RETURN_IF_ERROR(context->input_list("biases", &biases));
    if (interests->dims() != 2 || clicked->dims() != 2 || clicked->shape() != skipped->shape() ||
        clicked->dim_size(0) != interests->dim_size(0) || interests->dim_size(1) < 1 || clicked->dim_size(1) < 1) {
      return InvalidArgument("Interests must be [N, H], clicked and skipped [N, C], with H and C at least 1; received ",
                             interests->shape().DebugString(), ", ", clicked->shape().DebugString(), " and ",
                             skipped->shape().DebugString(), ".");
    }
    TF_RETURN_IF_ERROR(CheckSplits("the events", *splits, clicked->dim_size(0)));
    std::vector<DenseLayer> layers;
    const int64_t hidden = interests->dim_size(1), width = clicked->dim_size(1);
    TF_RETURN_IF_ERROR(ReadLayers(kernels, biases, hidden + width, &layers));
    const AuxiliaryInput input{interests->flat<float>().data(),
                               clicked->flat<float>().data(),
                               skipped->flat<float>().data(),
                               splits->flat<int64_t>().data(),
                               splits->NumElements() - 1,
                               hidden,
                               width,
                               layers.data(),
                               std::ssize(layers)};
    Tensor *loss, *d_interests, *d_clicked, *d_skipped;
    TF_RETURN_IF_ERROR(context->allocate_output("loss", TensorShape({}), &loss));
    TF_RETURN_IF_ERROR(context->allocate_output("d_interests", interests->shape(), &d_interests));
    TF_RETURN_IF_ERROR(context->allocate_output("d_clicked", clicked->shape(), &d_clicked));
    TF_RETURN_IF_ERROR(context->allocate_output("d_skipped", clicked->shape(), &d_skipped));
    std::vector<DenseGradient> gradients;
    TF_RETURN_IF_ERROR(AllocateGradients(context, layers, &gradients));
    const AuxiliaryGradient gradient{d_interests->flat<float>().data(), d_clicked->flat<float>().data(),
                                     d_skipped->flat<float>().data(), gradients.data()};
    const ParallelFor pool = IntraOpPool(context);
    auxiliary_kernel(&input, loss->flat<float>().data(), &gradient, &pool);
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>Auxiliary").Device(DEVICE_CPU), AuxiliaryOp);

}  // namespace
}  // namespace ctrlab
