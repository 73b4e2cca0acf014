// Ctrlab>Lookup and Ctrlab>LookupGradient: every input is checked here, then one kernel is called through the table.

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/lookup/lookup.h"
#include "kernels/registry.h"
#include "ops/lookup_base.h"
#include "ops/variables.h"

namespace ctrlab {
namespace {

CTRLAB_KERNEL(lookup);
CTRLAB_KERNEL(lookup_merge);
CTRLAB_KERNEL(packed_lookup);

REGISTER_OP("Ctrlab>Lookup")
    .Attr("T: int >= 1")
    .Attr("C: int >= 1")
    .Attr("M: int >= 1")
    .Attr("table_rows: list(int)")
    .Attr("table_dims: list(int)")
    .Attr("table_of: list(int)")
    .Attr("output_of: list(int)")
    .Attr("combiners: list(string)")
    .Attr("row_formats: list(string) = []")
    .Input("tables: T * resource")
    .Input("ids: C * int64")
    .Input("splits: C * int64")
    .Output("out: M * float")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) { return LookupShape(c, Ids::kPlaces); })
    .Doc(
        "Rows of T tables for C id columns, side by side in M outputs. Empty splits: one id a row. `row_formats` are those of "
        "kernels/lookup/row_format.h; none: all are float32.");

REGISTER_OP("Ctrlab>LookupGradient")
    .Attr("T: int >= 1")
    .Attr("C: int >= 1")
    .Attr("M: int >= 1")
    .Attr("table_rows: list(int)")
    .Attr("table_dims: list(int)")
    .Attr("table_of: list(int)")
    .Attr("output_of: list(int)")
    .Attr("combiners: list(string)")
    .Input("ids: C * int64")
    .Input("splits: C * int64")
    .Input("d_out: M * float")
    .Output("merged_ids: T * int64")
    .Output("merged_rows: T * float")
    .SetShapeFn([](InferenceContext* c) { return MergedShape(c, Ids::kPlaces, {"merged_ids"}); })
    .Doc("The gradient of Ctrlab>Lookup: each table's ids in ascending order, each once, and the sums of their gradients.");

class LookupOp : public LookupBase {
 public:
  explicit LookupOp(OpKernelConstruction* context) : LookupBase(context, Ids::kPlaces) {
    OP_REQUIRES_OK(context, ReadRowFormats(context, &formats_));
    packed_ = !formats_.empty();
    formats_.resize(packed_ ? formats_.size() : plan_.tables.size(), RowFormat::kFloat32);
    OP_REQUIRES(
        context, formats_.size() == plan_.tables.size(),
        InvalidArgument("Each of ", plan_.tables.size(), " tables has a format of rows; received ", formats_.size(), "."));
  }

 private:
  absl::Status Run(OpKernelContext* context) override {
    Batch batch;
    TF_RETURN_IF_ERROR(Read(context, &batch));
    LockedVariables variables;
    TF_RETURN_IF_ERROR(variables.Add(context, "tables", "table"));
    TF_RETURN_IF_ERROR(variables.Lock(LockedVariables::For::kReading));
    std::vector<const float*> tables;
    for (int t = 0; t < std::ssize(plan_.tables); ++t) {
      TF_RETURN_IF_ERROR(CheckShape(absl::StrCat("Table ", t), variables.tensor(t),
                                    {plan_.tables[t].rows, RowWords(formats_[t], plan_.tables[t].dim)}));
      tables.push_back(variables.data(t));
    }
    std::vector<float*> out;
    TF_RETURN_IF_ERROR(Outputs(context, batch, &out));
    const ParallelFor pool = IntraOpPool(context);
    if (packed_) {
      packed_lookup_kernel(&batch.input, tables.data(), formats_.data(), out.data(), &pool);
    } else {
      lookup_kernel(&batch.input, tables.data(), out.data(), &pool);
    }
    return absl::OkStatus();
  }

  std::vector<RowFormat> formats_;
  bool packed_ = false;
};

class LookupGradientOp : public LookupBase {
 public:
  explicit LookupGradientOp(OpKernelConstruction* context) : LookupBase(context, Ids::kPlaces) {}

 private:
  absl::Status Run(OpKernelContext* context) override {
    Batch batch;
    TF_RETURN_IF_ERROR(Read(context, &batch));
    std::vector<const float*> d_out;
    TF_RETURN_IF_ERROR(Gradients(context, batch, &d_out));

    // The number of distinct ids is only known at the end, so tensors are allocated for the maximum and then truncated.
    std::vector<int64_t> room(plan_.tables.size(), 0);
    for (const LookupColumn& column : batch.columns) {
      room[column.table] += column.splits ? column.splits[batch.input.rows] : batch.input.rows;
    }
    std::vector<Tensor> ids(room.size()), rows(room.size());
    std::vector<MergedRows> merged;
    for (size_t t = 0; t < room.size(); ++t) {
      room[t] = std::min(room[t], plan_.tables[t].rows);
      TF_RETURN_IF_ERROR(context->allocate_temp(tensorflow::DT_INT64, TensorShape({room[t]}), &ids[t]));
      TF_RETURN_IF_ERROR(context->allocate_temp(tensorflow::DT_FLOAT, TensorShape({room[t], plan_.tables[t].dim}), &rows[t]));
      merged.push_back({ids[t].flat<int64_t>().data(), rows[t].flat<float>().data(), 0});
    }
    const ParallelFor pool = IntraOpPool(context);
    lookup_merge_kernel(&batch.input, d_out.data(), merged.data(), &pool);

    OpOutputList ids_out, rows_out;
    TF_RETURN_IF_ERROR(context->output_list("merged_ids", &ids_out));
    TF_RETURN_IF_ERROR(context->output_list("merged_rows", &rows_out));
    for (size_t t = 0; t < room.size(); ++t) {
      if (merged[t].count < 0 || merged[t].count > room[t]) {  // a swapped-in kernel may return anything
        return absl::InternalError("A merge must not answer with more rows than there is room for.");
      }
      ids_out.set(t, ids[t].Slice(0, merged[t].count));
      rows_out.set(t, rows[t].Slice(0, merged[t].count));
    }
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>Lookup").Device(DEVICE_CPU), LookupOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>LookupGradient").Device(DEVICE_CPU), LookupGradientOp);

}  // namespace
}  // namespace ctrlab
