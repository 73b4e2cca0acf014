// Ctrlab>Indicator and its gradient: every input is checked here, then one kernel is called through the table.

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "kernels/indicator/indicator.h"
#include "kernels/registry.h"
#include "ops/checks.h"
#include "ops/op.h"
#include "ops/parallel_for.h"

namespace ctrlab {
namespace {

CTRLAB_KERNEL(indicator);
CTRLAB_KERNEL(indicator_gradient);
CTRLAB_KERNEL(indicator_weights_gradient);

// The batch size, which all columns share; unknown until the shapes of a column's ids and splits are known.
absl::Status BatchOf(InferenceContext* c, int columns, DimensionHandle* batch) {
  *batch = c->UnknownDim();
  for (int i = 0; i < columns; ++i) {
    ShapeHandle ids, splits;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 1, &ids));
    TF_RETURN_IF_ERROR(c->WithRank(c->input(columns + i), 1, &splits));
    const DimensionHandle ends = c->Dim(splits, 0);
    if (!c->ValueKnown(ends)) continue;
    DimensionHandle rows = c->Dim(ids, 0);
    if (c->Value(ends) > 0) TF_RETURN_IF_ERROR(c->Subtract(ends, 1, &rows));
    TF_RETURN_IF_ERROR(c->Merge(*batch, rows, batch));
  }
  return absl::OkStatus();
}

absl::Status IndicatorShape(InferenceContext* c) {
  int columns, weighted;
  TF_RETURN_IF_ERROR(c->GetAttr("C", &columns));
  TF_RETURN_IF_ERROR(c->GetAttr("W", &weighted));
  DimensionHandle batch;
  TF_RETURN_IF_ERROR(BatchOf(c, columns, &batch));
  ShapeHandle kernel;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2 * columns + weighted), 2, &kernel));
  c->set_output(0, c->Matrix(batch, c->Dim(kernel, 1)));
  return absl::OkStatus();
}

absl::Status IndicatorGradientShape(InferenceContext* c) {
  int columns, weighted;
  TF_RETURN_IF_ERROR(c->GetAttr("C", &columns));
  TF_RETURN_IF_ERROR(c->GetAttr("W", &weighted));
  c->set_output(0, c->input(2 * columns + weighted));
  for (int i = 0; i < weighted; ++i) c->set_output(1 + i, c->input(i));
  return absl::OkStatus();
}

REGISTER_OP("Ctrlab>Indicator")
    .Attr("C: int >= 1")
    .Attr("W: int >= 0 = 0")
    .Attr("sizes: list(int)")
    .Input("ids: C * int64")
    .Input("splits: C * int64")
    .Input("weights: W * float")
    .Input("kernel: float")
    .Output("out: float")
    .SetShapeFn(IndicatorShape)
    .Doc("multi_hot(ids) @ kernel without the multi-hot. Empty splits: one id a row. W is C, or 0 for weights of 1.");

REGISTER_OP("Ctrlab>IndicatorGradient")
    .Attr("C: int >= 1")
    .Attr("W: int >= 0 = 0")
    .Attr("sizes: list(int)")
    .Input("ids: C * int64")
    .Input("splits: C * int64")
    .Input("weights: W * float")
    .Input("kernel: float")
    .Input("d_out: float")
    .Output("d_kernel: float")
    .Output("d_weights: W * float")
    .SetShapeFn(IndicatorGradientShape)
    .Doc("The gradient of Ctrlab>Indicator: dense d_kernel, and d_weights where there are weights.");

// An op's inputs in the form that kernels take. The tensors must outlive it.
struct Batch {
  std::vector<IdColumn> columns;
  IndicatorInput input;
  const float* kernel;
  OpInputList ids;
};

class IndicatorBase : public StatusOp {
 public:
  explicit IndicatorBase(OpKernelConstruction* context) : StatusOp(context) {
    int columns, weighted;
    OP_REQUIRES_OK(context, context->GetAttr("C", &columns));
    OP_REQUIRES_OK(context, context->GetAttr("W", &weighted));
    OP_REQUIRES_OK(context, context->GetAttr("sizes", &sizes_));
    OP_REQUIRES(context, std::ssize(sizes_) == columns,
                InvalidArgument("There must be one size per column; received ", sizes_.size(), " for ", columns, " columns."));
    OP_REQUIRES(context, weighted == 0 || weighted == columns,
                InvalidArgument("All columns have weights or none; received ", weighted, " for ", columns, " columns."));
    for (size_t c = 0; c < sizes_.size(); ++c) {
      constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
      OP_REQUIRES(context, sizes_[c] >= 1 && sizes_[c] <= kMost,
                  InvalidArgument("The size of column ", c, " must be in [1, ", kMost, "]; received ", sizes_[c], "."));
      total_ += sizes_[c];
    }
  }

  absl::Status Run(OpKernelContext* context) final {
    Batch batch;
    TF_RETURN_IF_ERROR(Read(context, &batch));
    return RunBatch(context, batch);
  }

 protected:
  virtual absl::Status RunBatch(OpKernelContext* context, const Batch& batch) = 0;

 private:
  absl::Status Read(OpKernelContext* context, Batch* batch) const {
    OpInputList splits, weights;
    const Tensor* kernel;
    TF_RETURN_IF_ERROR(context->input_list("ids", &batch->ids));
    TF_RETURN_IF_ERROR(context->input_list("splits", &splits));
    TF_RETURN_IF_ERROR(context->input_list("weights", &weights));
    TF_RETURN_IF_ERROR(context->input("kernel", &kernel));
    if (!TensorShapeUtils::IsMatrix(kernel->shape()) || kernel->dim_size(0) != total_) {
      return InvalidArgument("The kernel must be [", total_, ", outputs], the sum of the columns' sizes; received ",
                             kernel->shape().DebugString(), ".");
    }
    int64_t offset = 0, rows = -1;
    for (int c = 0; c < batch->ids.size(); ++c) {
      IdColumn column{nullptr, nullptr, nullptr, offset, sizes_[c]};
      TF_RETURN_IF_ERROR(ReadColumn(c, batch->ids[c], splits[c], weights.size() ? &weights[c] : nullptr, &rows, &column));
      batch->columns.push_back(column);
      offset += sizes_[c];
    }
    batch->kernel = kernel->flat<float>().data();
    batch->input = {batch->columns.data(), std::ssize(batch->columns), rows, kernel->dim_size(1)};
    return absl::OkStatus();
  }

  static absl::Status ReadColumn(int c, const Tensor& ids, const Tensor& splits, const Tensor* weights, int64_t* rows,
                                 IdColumn* column) {
    if (!TensorShapeUtils::IsVector(ids.shape()) || !TensorShapeUtils::IsVector(splits.shape())) {
      return InvalidArgument("The ids and splits of column ", c, " must be vectors; received ", ids.shape().DebugString(),
                             " and ", splits.shape().DebugString(), ".");
    }
    if (weights && weights->shape() != ids.shape()) {
      return InvalidArgument("The weights of column ", c, " must have the shape of its ids, ", ids.shape().DebugString(),
                             "; received ", weights->shape().DebugString(), ".");
    }
    const int64_t count = ids.NumElements();
    const bool ragged = splits.NumElements() > 0;
    const std::string what = absl::StrCat("column ", c);
    if (ragged) TF_RETURN_IF_ERROR(CheckSplits(what, splits, count));
    const int64_t here = ragged ? splits.NumElements() - 1 : count;
    if (*rows < 0) *rows = here;
    if (here != *rows) {
      return InvalidArgument("All columns must have the same rows; received ", here, " in column ", c, " and ", *rows,
                             " in column 0.");
    }
    if (here > std::numeric_limits<int32_t>::max())
      return InvalidArgument("A batch must have less than 2^31 rows; received ", here, ".");
    column->ids = ids.flat<int64_t>().data();
    column->splits = ragged ? splits.flat<int64_t>().data() : nullptr;
    column->weights = weights ? weights->flat<float>().data() : nullptr;
    return CheckIds(what, column->ids, column->splits, count, column->size);
  }

  std::vector<int64_t> sizes_;
  int64_t total_ = 0;
};

class IndicatorOp : public IndicatorBase {
 public:
  using IndicatorBase::IndicatorBase;

 private:
  absl::Status RunBatch(OpKernelContext* context, const Batch& batch) override {
    Tensor* out;
    TF_RETURN_IF_ERROR(context->allocate_output("out", TensorShape({batch.input.rows, batch.input.outputs}), &out));
    const ParallelFor pool = IntraOpPool(context);
    indicator_kernel(&batch.input, batch.kernel, out->flat<float>().data(), &pool);
    return absl::OkStatus();
  }
};

class IndicatorGradientOp : public IndicatorBase {
 public:
  using IndicatorBase::IndicatorBase;

 private:
  absl::Status RunBatch(OpKernelContext* context, const Batch& batch) override {
    const Tensor *kernel, *d_out;
    TF_RETURN_IF_ERROR(context->input("kernel", &kernel));
    TF_RETURN_IF_ERROR(context->input("d_out", &d_out));
    TF_RETURN_IF_ERROR(CheckShape("d_out", *d_out, {batch.input.rows, batch.input.outputs}));
    Tensor* d_kernel;
    TF_RETURN_IF_ERROR(context->allocate_output("d_kernel", kernel->shape(), &d_kernel));
    const ParallelFor pool = IntraOpPool(context);
    const float* d = d_out->flat<float>().data();
    indicator_gradient_kernel(&batch.input, d, d_kernel->flat<float>().data(), &pool);

    OpOutputList outputs;
    TF_RETURN_IF_ERROR(context->output_list("d_weights", &outputs));
    if (outputs.size() == 0) return absl::OkStatus();
    std::vector<float*> d_weights(outputs.size());
    for (int c = 0; c < outputs.size(); ++c) {
      Tensor* d_column;
      TF_RETURN_IF_ERROR(outputs.allocate(c, batch.ids[c].shape(), &d_column));
      d_weights[c] = d_column->flat<float>().data();
    }
    indicator_weights_gradient_kernel(&batch.input, batch.kernel, d, d_weights.data(), &pool);
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>Indicator").Device(DEVICE_CPU), IndicatorOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>IndicatorGradient").Device(DEVICE_CPU), IndicatorGradientOp);

}  // namespace
}  // namespace ctrlab
