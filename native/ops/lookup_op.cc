// Ctrlab>Lookup, in variables, and Ctrlab>RowsLookup, in tensors, with their gradients: every input is checked here, then one kernel
// is called through the table.

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

REGISTER_OP("Ctrlab>RowsLookup")
    .Attr("T: int >= 1")
    .Attr("C: int >= 1")
    .Attr("M: int >= 1")
    .Attr("table_dims: list(int)")
    .Attr("table_of: list(int)")
    .Attr("output_of: list(int)")
    .Attr("combiners: list(string)")
    .Input("rows: T * float")
    .Input("ids: C * int64")
    .Input("splits: C * int64")
    .Output("out: M * float")
    .SetShapeFn([](InferenceContext* c) { return LookupShape(c, Ids::kRowsOfTensors); })
    .Doc("Ctrlab>Lookup in T tensors in place of variables.");

REGISTER_OP("Ctrlab>RowsLookupGradient")
    .Attr("T: int >= 1")
    .Attr("C: int >= 1")
    .Attr("M: int >= 1")
    .Attr("table_dims: list(int)")
    .Attr("table_of: list(int)")
    .Attr("output_of: list(int)")
    .Attr("combiners: list(string)")
    .Input("rows: T * float")
    .Input("ids: C * int64")
    .Input("splits: C * int64")
    .Input("d_out: M * float")
    .Output("d_rows: T * float")
    .SetShapeFn([](InferenceContext* c) {
      std::vector<ShapeHandle> rows;
      TF_RETURN_IF_ERROR(c->input("rows", &rows));
      return c->set_output("d_rows", rows);
    })
    .Doc("The gradient of Ctrlab>RowsLookup: of each tensor, zero in rows that no id names.");

// Merged gradients. The number of distinct ids is only known at the end, so tensors are allocated for the maximum.
struct Merged {
  std::vector<Tensor> ids, rows;
  std::vector<MergedRows> of;

  absl::Status Allocate(OpKernelContext* context, const LookupInput& input) {
    std::vector<int64_t> room(input.table_count, 0);
    for (int64_t c = 0; c < input.column_count; ++c) {
      const LookupColumn& column = input.columns[c];
      room[column.table] += column.splits ? column.splits[input.rows] : input.rows;
    }
    ids.resize(room.size()), rows.resize(room.size());
    for (size_t t = 0; t < room.size(); ++t) {
      const LookupTable& table = input.tables[t];
      room[t] = std::min(room[t], table.rows);
      TF_RETURN_IF_ERROR(context->allocate_temp(tensorflow::DT_INT64, TensorShape({room[t]}), &ids[t]));
      TF_RETURN_IF_ERROR(context->allocate_temp(tensorflow::DT_FLOAT, TensorShape({room[t], table.dim}), &rows[t]));
      of.push_back({ids[t].flat<int64_t>().data(), rows[t].flat<float>().data(), 0});
    }
    return absl::OkStatus();
  }

  absl::Status Check() const {
    for (size_t t = 0; t < of.size(); ++t) {
      if (of[t].count >= 0 && of[t].count <= ids[t].NumElements()) continue;  // a swapped-in kernel may return anything
      return absl::InternalError("A merge must not answer with more rows than there is room for.");
    }
    return absl::OkStatus();
  }
};

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

// What the gradients have in common: each table's ids in ascending order, each once, and the sums of their gradients.
class MergedGradient : public LookupBase {
 protected:
  using LookupBase::LookupBase;
  virtual absl::Status Write(OpKernelContext* context, const Merged& merged) = 0;

 private:
  absl::Status Run(OpKernelContext* context) override {
    Batch batch;
    std::vector<const float*> d_out;
    TF_RETURN_IF_ERROR(ReadWithGradients(context, &batch, &d_out));
    Merged merged;
    TF_RETURN_IF_ERROR(merged.Allocate(context, batch.input));
    const ParallelFor pool = IntraOpPool(context);
    lookup_merge_kernel(&batch.input, d_out.data(), merged.of.data(), &pool);
    TF_RETURN_IF_ERROR(merged.Check());
    return Write(context, merged);
  }
};

class LookupGradientOp : public MergedGradient {
 public:
  explicit LookupGradientOp(OpKernelConstruction* context) : MergedGradient(context, Ids::kPlaces) {}

 private:
  absl::Status Write(OpKernelContext* context, const Merged& merged) override {
    OpOutputList ids, rows;
    TF_RETURN_IF_ERROR(context->output_list("merged_ids", &ids));
    TF_RETURN_IF_ERROR(context->output_list("merged_rows", &rows));
    for (size_t t = 0; t < merged.of.size(); ++t) {
      ids.set(t, merged.ids[t].Slice(0, merged.of[t].count));
      rows.set(t, merged.rows[t].Slice(0, merged.of[t].count));
    }
    return absl::OkStatus();
  }
};

class RowsLookupOp : public LookupBase {
 public:
  explicit RowsLookupOp(OpKernelConstruction* context) : LookupBase(context, Ids::kRowsOfTensors) {}

 private:
  absl::Status Run(OpKernelContext* context) override {
    Batch batch;
    TF_RETURN_IF_ERROR(Read(context, &batch));
    OpInputList rows;
    TF_RETURN_IF_ERROR(context->input_list("rows", &rows));
    std::vector<const float*> tables;
    for (const Tensor& table : rows) tables.push_back(table.flat<float>().data());
    std::vector<float*> out;
    TF_RETURN_IF_ERROR(Outputs(context, batch, &out));
    const ParallelFor pool = IntraOpPool(context);
    lookup_kernel(&batch.input, tables.data(), out.data(), &pool);
    return absl::OkStatus();
  }
};

class RowsLookupGradientOp : public MergedGradient {
 public:
  explicit RowsLookupGradientOp(OpKernelConstruction* context) : MergedGradient(context, Ids::kRowsOfTensors) {}

 private:
  absl::Status Write(OpKernelContext* context, const Merged& merged) override {
    OpInputList rows;
    OpOutputList d_rows;
    TF_RETURN_IF_ERROR(context->input_list("rows", &rows));
    TF_RETURN_IF_ERROR(context->output_list("d_rows", &d_rows));
    for (int t = 0; t < d_rows.size(); ++t) {
      const int64_t count = rows[t].dim_size(0), dim = rows[t].dim_size(1);
      const MergedRows& of = merged.of[t];
      if (of.count == count) {  // ids ascend, so all are there in order
        d_rows.set(t, merged.rows[t].Slice(0, count));
        continue;
      }
      Tensor* out;
      TF_RETURN_IF_ERROR(d_rows.allocate(t, TensorShape({count, dim}), &out));
      float* const to = out->flat<float>().data();
      std::fill_n(to, out->NumElements(), 0.0f);
      for (int64_t u = 0; u < of.count; ++u) {
        if (of.ids[u] < 0 || of.ids[u] >= count) return absl::InternalError("A merge must answer with ids that came.");
        std::copy_n(of.rows + u * dim, dim, to + of.ids[u] * dim);
      }
    }
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>Lookup").Device(DEVICE_CPU), LookupOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>LookupGradient").Device(DEVICE_CPU), LookupGradientOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>RowsLookup").Device(DEVICE_CPU), RowsLookupOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>RowsLookupGradient").Device(DEVICE_CPU), RowsLookupGradientOp);

}  // namespace
}  // namespace ctrlab
