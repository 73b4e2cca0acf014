// Reads and checks an MLP's kernels and biases from the inputs of an op.

#pragma once

#include <vector>

#include "kernels/mlp.h"
#include "ops/errors.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ctrlab {

// Layer 0 takes `in` numbers, each layer takes the output of the one below, and the last gives one number.
inline absl::Status ReadLayers(const tensorflow::OpInputList& kernels, const tensorflow::OpInputList& biases, int64_t in,
                               std::vector<DenseLayer>* layers) {
  for (int l = 0; l < kernels.size(); ++l) {
    const tensorflow::Tensor &kernel = kernels[l], &bias = biases[l];
    if (kernel.dims() != 2 || kernel.dim_size(0) != in || kernel.dim_size(1) < 1) {
      return InvalidArgument("The kernel of layer ", l, " must be [", in, ", units]; received ", kernel.shape().DebugString(),
                             ".");
    }
    const int64_t out = kernel.dim_size(1);
    if (bias.dims() != 1 || bias.dim_size(0) != out) {
      return InvalidArgument("The bias of layer ", l, " must be [", out, "]; received ", bias.shape().DebugString(), ".");
    }
    layers->push_back({kernel.flat<float>().data(), bias.flat<float>().data(), in, out});
    in = out;
  }
  if (in != 1) return InvalidArgument("The last layer must give one number; received ", in, ".");
  return absl::OkStatus();
}

// Allocates the gradients of the layers, in the layers' shapes.
inline absl::Status AllocateGradients(tensorflow::OpKernelContext* context, const std::vector<DenseLayer>& layers,
                                      std::vector<DenseGradient>* gradients) {
  tensorflow::OpOutputList kernels, biases;
  TF_RETURN_IF_ERROR(context->output_list("d_kernels", &kernels));
  TF_RETURN_IF_ERROR(context->output_list("d_biases", &biases));
  for (size_t l = 0; l < layers.size(); ++l) {
    tensorflow::Tensor *kernel, *bias;
    TF_RETURN_IF_ERROR(kernels.allocate(l, tensorflow::TensorShape({layers[l].in, layers[l].out}), &kernel));
    TF_RETURN_IF_ERROR(biases.allocate(l, tensorflow::TensorShape({layers[l].out}), &bias));
    gradients->push_back({kernel->flat<float>().data(), bias->flat<float>().data()});
  }
  return absl::OkStatus();
}

}  // namespace ctrlab
