// Ctrlab>Snapshot: variables copied into other variables of the same types and shapes.

#include <set>
#include <vector>

#include "kernels/registry.h"
#include "kernels/snapshot/snapshot.h"
#include "ops/op.h"
#include "ops/parallel_for.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/types.h"

namespace ctrlab {
namespace {

CTRLAB_KERNEL(snapshot);

using tensorflow::Var;

REGISTER_OP("Ctrlab>Snapshot")
    .Attr("N: int >= 1")
    .Input("sources: N * resource")
    .Input("targets: N * resource")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return absl::OkStatus(); })
    .Doc("Copies each variable of `sources` into the one of `targets` at the same place, whose memory is used again.");

class SnapshotOp : public StatusOp {
 public:
  explicit SnapshotOp(OpKernelConstruction* context) : StatusOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("N", &count_));
  }

 private:
  absl::Status Run(OpKernelContext* context) override {
    std::vector<tensorflow::core::RefCountPtr<Var>> variables(2 * count_);
    for (int i = 0; i < 2 * count_; ++i) {
      TF_RETURN_IF_ERROR(tensorflow::LookupResource(context, tensorflow::HandleFromInput(context, i), &variables[i]));
    }
    std::set<const Var*> others;
    for (int i = 0; i < count_; ++i) others.insert(variables[i].get());
    for (int i = 0; i < count_; ++i) {
      if (others.insert(variables[count_ + i].get()).second) continue;
      return InvalidArgument("A target must be no source, and the target of one source; target ", i, " is not.");
    }
    // The snapshot is taken between steps, when nothing is written. A lock is only held while a variable's tensor is referenced.
    // Both tensors of a pair are referenced, so that a concurrent assignment to a variable does not free the data that is being
    // copied.
    std::vector<Tensor> held(2 * count_);
    std::vector<CopyPiece> pieces;
    for (int i = 0; i < count_; ++i) {
      Var& source = *variables[i];
      Var& target = *variables[count_ + i];
      {
        tensorflow::tf_shared_lock lock(*source.mu());
        held[i] = *source.tensor();
      }
      tensorflow::mutex_lock lock(*target.mu());
      TF_RETURN_IF_ERROR(Check(i, held[i], *target.tensor()));
      TF_RETURN_IF_ERROR(MakeOwn(context, target.tensor()));
      held[count_ + i] = *target.tensor();
      pieces.push_back({held[i].data(), held[count_ + i].data(), static_cast<int64_t>(held[i].TotalBytes())});
    }
    const ParallelFor pool = IntraOpPool(context);
    snapshot_kernel(pieces.data(), count_, &pool);
    return absl::OkStatus();
  }

  static absl::Status Check(int i, const Tensor& source, const Tensor& target) {
    if (!source.IsInitialized() || !target.IsInitialized()) {
      return InvalidArgument("Both variables must have a value; ", source.IsInitialized() ? "target " : "source ", i,
                             " has none.");
    }
    if (!tensorflow::DataTypeCanUseMemcpy(source.dtype())) {
      return InvalidArgument("Only plain numbers can be copied; source ", i, " is ", tensorflow::DataTypeString(source.dtype()),
                             ".");
    }
    if (source.dtype() != target.dtype() || source.shape() != target.shape()) {
      return InvalidArgument("A target must have its source's type and shape, ", source.DebugString(0), "; target ", i, " is ",
                             target.DebugString(0), ".");
    }
    return absl::OkStatus();
  }

  // A target tensor that is still being read is left to its readers.
  static absl::Status MakeOwn(OpKernelContext* context, Tensor* target) {
    if (target->RefCountIsOne()) return absl::OkStatus();
    Tensor own;
    TF_RETURN_IF_ERROR(context->allocate_temp(target->dtype(), target->shape(), &own));
    *target = own;
    return absl::OkStatus();
  }

  int count_;
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>Snapshot").Device(DEVICE_CPU), SnapshotOp);

}  // namespace
}  // namespace ctrlab
