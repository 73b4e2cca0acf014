// Ctrlab>EmbeddingLookup and its gradient: every input is checked here, then the engine is called.

#include <string>
#include <vector>

#include "ops/embedding_table.h"
#include "ops/lookup_base.h"
#include "table/lookup.h"
#include "table/merge.h"

namespace ctrlab {
namespace {

REGISTER_OP("Ctrlab>EmbeddingLookup")
    .Attr("T: int >= 1")
    .Attr("C: int >= 1")
    .Attr("M: int >= 1")
    .Attr("table_dims: list(int)")
    .Attr("table_of: list(int)")
    .Attr("output_of: list(int)")
    .Attr("combiners: list(string)")
    .Attr("training: bool")
    .Attr("P: int >= 0")
    .Attr("K: int >= 0 = 0")
    .Input("tables: T * resource")
    .Input("proxies: P * resource")
    .Input("ids: C * int64")
    .Input("splits: C * int64")
    .Input("times: K * int64")
    .Output("out: M * float")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) { return LookupShape(c, Ids::kAnyKey); })
    .Doc(
        "Rows of T embedding variables for C columns of keys, side by side in M outputs. Empty splits: one key a row. The "
        "proxies are not read: they are what gradients flow to, T of them, or none in a served graph. `times`, of each column or "
        "of none, say how many occurrences each key stands for; only the gradient uses them.");

REGISTER_OP("Ctrlab>EmbeddingLookupGradient")
    .Attr("T: int >= 1")
    .Attr("C: int >= 1")
    .Attr("M: int >= 1")
    .Attr("table_dims: list(int)")
    .Attr("table_of: list(int)")
    .Attr("output_of: list(int)")
    .Attr("combiners: list(string)")
    .Attr("K: int >= 0 = 0")
    .Input("ids: C * int64")
    .Input("splits: C * int64")
    .Input("d_out: M * float")
    .Input("times: K * int64")
    .Output("merged_keys: T * int64")
    .Output("counts: T * int64")
    .Output("merged_rows: T * float")
    .SetShapeFn([](InferenceContext* c) { return MergedShape(c, Ids::kAnyKey, {"merged_keys", "counts"}); })
    .Doc(
        "The gradient of Ctrlab>EmbeddingLookup: each table's keys in ascending order, each once, how often each came, and the "
        "sums of their gradients. With `times`, a key comes as often as they say.");

REGISTER_OP("Ctrlab>EmbeddingSpread")
    .Input("merged_keys: int64")
    .Input("counts: int64")
    .Input("merged_rows: float")
    .Output("keys: int64")
    .Output("rows: float")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle rows;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 2, &rows));
      const DimensionHandle n = c->UnknownDim();
      c->set_output(0, c->Vector(n));
      c->set_output(1, c->Matrix(n, c->Dim(rows, 1)));
      return absl::OkStatus();
    })
    .Doc("Each key as often as it came: its sum in the first place, zeros in the others.");

// `what` names them: "Counts". Together they are below 2^31, so that sums of many columns don't overflow either.
absl::Status CheckCounts(std::string_view what, const Tensor& counts, int64_t* total) {
  const auto count = counts.flat<int64_t>();
  *total = 0;
  for (int64_t i = 0; i < count.size(); ++i) {
    if (count(i) < 1 || count(i) > kMost - *total) {
      return InvalidArgument(what, " must be at least 1 and less than 2^31 together; received ", count(i), " at ", i, ".");
    }
    *total += count(i);
  }
  return absl::OkStatus();
}

// For each column the times of its keys; none if no column has any.
absl::Status ReadTimes(OpKernelContext* context, std::vector<const int64_t*>* times) {
  OpInputList ids, counted;
  TF_RETURN_IF_ERROR(context->input_list("ids", &ids));
  TF_RETURN_IF_ERROR(context->input_list("times", &counted));
  for (int c = 0; c < counted.size(); ++c) {
    const std::string what = absl::StrCat("The times of column ", c);
    int64_t total;
    TF_RETURN_IF_ERROR(CheckShape(what, counted[c], {ids[c].NumElements()}));
    TF_RETURN_IF_ERROR(CheckCounts(what, counted[c], &total));
    times->push_back(counted[c].flat<int64_t>().data());
  }
  return absl::OkStatus();
}

class EmbeddingLookupOp : public LookupBase {
 public:
  explicit EmbeddingLookupOp(OpKernelConstruction* context) : LookupBase(context, Ids::kAnyKey) {
    OP_REQUIRES_OK(context, context->GetAttr("training", &training_));
  }

 private:
  absl::Status Run(OpKernelContext* context) override {
    Batch batch;
    TF_RETURN_IF_ERROR(Read(context, &batch));
    std::vector<const int64_t*> times;  // checked before a model is computed on what its gradient would refuse
    TF_RETURN_IF_ERROR(ReadTimes(context, &times));
    std::vector<TablePtr> found;
    TF_RETURN_IF_ERROR(FindTables(context, [&](int t) { return plan_.tables[t].dim; }, &found));
    std::vector<embedding::Table*> tables;
    for (const TablePtr& table : found) tables.push_back(&table->table());
    std::vector<float*> out;
    TF_RETURN_IF_ERROR(Outputs(context, batch, &out));
    const embedding::Status status = embedding::Lookup(batch.input, tables.data(), training_, out.data(), IntraOpPool(context));
    return status.ok() ? absl::OkStatus() : InvalidArgument(status.problem());
  }

  bool training_;
};

class EmbeddingLookupGradientOp : public LookupBase {
 public:
  explicit EmbeddingLookupGradientOp(OpKernelConstruction* context) : LookupBase(context, Ids::kAnyKey) {}

 private:
  absl::Status Run(OpKernelContext* context) override {
    Batch batch;
    std::vector<const float*> d_out;
    TF_RETURN_IF_ERROR(ReadWithGradients(context, &batch, &d_out));
    std::vector<const int64_t*> times;
    TF_RETURN_IF_ERROR(ReadTimes(context, &times));
    const ParallelFor pool = IntraOpPool(context);
    const embedding::KeyMerge merge(batch.input, pool, times.empty() ? nullptr : times.data());
    OpOutputList keys, counts, rows;
    TF_RETURN_IF_ERROR(context->output_list("merged_keys", &keys));
    TF_RETURN_IF_ERROR(context->output_list("counts", &counts));
    TF_RETURN_IF_ERROR(context->output_list("merged_rows", &rows));
    std::vector<embedding::MergedKeys> merged;
    for (int t = 0; t < keys.size(); ++t) {
      const int64_t unique = merge.count(t);
      Tensor *key, *count, *row;
      TF_RETURN_IF_ERROR(keys.allocate(t, TensorShape({unique}), &key));
      TF_RETURN_IF_ERROR(counts.allocate(t, TensorShape({unique}), &count));
      TF_RETURN_IF_ERROR(rows.allocate(t, TensorShape({unique, plan_.tables[t].dim}), &row));
      merged.push_back({key->flat<int64_t>().data(), count->flat<int64_t>().data(), row->flat<float>().data()});
    }
    merge.Write(d_out.data(), merged.data(), pool);
    return absl::OkStatus();
  }
};

class EmbeddingSpreadOp : public StatusOp {
 public:
  using StatusOp::StatusOp;

 private:
  absl::Status Run(OpKernelContext* context) override {
    const Tensor &merged_keys = context->input(0), &counts = context->input(1), &merged_rows = context->input(2);
    const int64_t unique = merged_keys.NumElements();
    TF_RETURN_IF_ERROR(CheckMatrix("merged_rows", merged_rows));
    const int64_t dim = merged_rows.dim_size(1);
    TF_RETURN_IF_ERROR(CheckShape("merged_keys", merged_keys, {unique}));
    TF_RETURN_IF_ERROR(CheckShape("counts", counts, {unique}));
    TF_RETURN_IF_ERROR(CheckShape("merged_rows", merged_rows, {unique, dim}));
    const int64_t* count = counts.flat<int64_t>().data();
    int64_t total;
    TF_RETURN_IF_ERROR(CheckCounts("Counts", counts, &total));
    Tensor *keys, *rows;
    TF_RETURN_IF_ERROR(context->allocate_output(0, TensorShape({total}), &keys));
    TF_RETURN_IF_ERROR(context->allocate_output(1, TensorShape({total, dim}), &rows));
    int64_t* key = keys->flat<int64_t>().data();
    float* row = rows->flat<float>().data();
    const float* sum = merged_rows.flat<float>().data();
    for (int64_t u = 0; u < unique; ++u, sum += dim) {
      key = std::fill_n(key, count[u], merged_keys.flat<int64_t>()(u));
      row = std::fill_n(std::copy_n(sum, dim, row), (count[u] - 1) * dim, 0.0f);
    }
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingLookup").Device(DEVICE_CPU), EmbeddingLookupOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingLookupGradient").Device(DEVICE_CPU), EmbeddingLookupGradientOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingSpread").Device(DEVICE_CPU), EmbeddingSpreadOp);

}  // namespace
}  // namespace ctrlab
