// The common part of ops that look up many columns: all checks of a batch's columns, and the tensors of M outputs.

#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/lookup/lookup.h"
#include "ops/checks.h"
#include "ops/lookup_plan.h"
#include "ops/op.h"
#include "ops/parallel_for.h"

namespace ctrlab {

class LookupBase : public StatusOp {
 public:
  LookupBase(OpKernelConstruction* context, Ids kind) : StatusOp(context), kind_(kind) {
    OP_REQUIRES_OK(context, plan_.Read(context, kind));
  }

 protected:
  // The columns of one call, in the form that kernels take. The op's inputs must outlive it.
  struct Batch {
    std::vector<LookupTable> tables;
    std::vector<LookupColumn> columns;
    std::vector<int64_t> output_rows;  // [M]
    LookupInput input;
  };

  absl::Status Read(OpKernelContext* context, Batch* batch) const {
    OpInputList ids, splits;
    TF_RETURN_IF_ERROR(context->input_list("ids", &ids));
    TF_RETURN_IF_ERROR(context->input_list("splits", &splits));
    batch->tables = plan_.tables;
    if (kind_ == Ids::kRowsOfTensors) TF_RETURN_IF_ERROR(ReadRows(context, &batch->tables));
    batch->columns = plan_.columns;
    const int64_t count = std::ssize(batch->columns);
    std::vector<absl::Status> found(count);
    int64_t total = 0;
    for (const Tensor& column : ids) total += column.NumElements();
    IntraOpPool(context)(count, total / count, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) found[c] = ReadColumn(c, ids[c], splits[c], batch->tables, &batch->columns[c]);
    });
    for (const absl::Status& status : found) TF_RETURN_IF_ERROR(status);
    // Kernels know no table without rows. All ids of such a tensor are -1 here.
    for (LookupTable& table : batch->tables) table.rows = std::max<int64_t>(table.rows, 1);

    const int64_t rows = RowsOf(ids[0], splits[0]);
    batch->output_rows.assign(plan_.widths.size(), -1);
    std::vector<int64_t> first(plan_.widths.size(), -1);  // for each output, its first column
    for (int64_t c = 0; c < count; ++c) {
      const LookupColumn& column = batch->columns[c];
      if (RowsOf(ids[c], splits[c]) != rows) {
        return InvalidArgument("All columns must have the same rows; received ", RowsOf(ids[c], splits[c]), " in column ", c,
                               " and ", rows, " in column 0.");
      }
      int64_t& beside = first[column.output];
      if (beside < 0) {
        beside = c;
        batch->output_rows[column.output] = column.combiner == kRows ? ids[c].NumElements() : rows;
      } else {
        TF_RETURN_IF_ERROR(CheckSideBySide(batch->columns[beside], beside, column, c, rows));
      }
    }
    batch->input = {batch->columns.data(), count, batch->tables.data(), std::ssize(batch->tables), plan_.widths.data(), rows};
    return absl::OkStatus();
  }

  // The M outputs `out`, allocated for this batch.
  absl::Status Outputs(OpKernelContext* context, const Batch& batch, std::vector<float*>* out) const {
    OpOutputList outputs;
    TF_RETURN_IF_ERROR(context->output_list("out", &outputs));
    for (int m = 0; m < outputs.size(); ++m) {
      Tensor* tensor;
      TF_RETURN_IF_ERROR(outputs.allocate(m, TensorShape({batch.output_rows[m], plan_.widths[m]}), &tensor));
      out->push_back(tensor->flat<float>().data());
    }
    return absl::OkStatus();
  }

  // The columns, and the M inputs `d_out`, which must have the shapes of this batch's outputs.
  absl::Status ReadWithGradients(OpKernelContext* context, Batch* batch, std::vector<const float*>* d_out) const {
    TF_RETURN_IF_ERROR(Read(context, batch));
    OpInputList gradients;
    TF_RETURN_IF_ERROR(context->input_list("d_out", &gradients));
    for (int m = 0; m < gradients.size(); ++m) {
      TF_RETURN_IF_ERROR(CheckShape(absl::StrCat("d_out ", m), gradients[m], {batch->output_rows[m], plan_.widths[m]}));
      d_out->push_back(gradients[m].flat<float>().data());
    }
    return absl::OkStatus();
  }

  Plan plan_;

 private:
  static int64_t RowsOf(const Tensor& ids, const Tensor& splits) {
    return splits.NumElements() ? splits.NumElements() - 1 : ids.NumElements();
  }

  // The number of rows of each tensor in the input `rows`.
  static absl::Status ReadRows(OpKernelContext* context, std::vector<LookupTable>* tables) {
    OpInputList given;
    TF_RETURN_IF_ERROR(context->input_list("rows", &given));
    for (int t = 0; t < given.size(); ++t) {
      const int64_t count = given[t].dims() ? given[t].dim_size(0) : 0;
      TF_RETURN_IF_ERROR(CheckShape(absl::StrCat("Rows ", t), given[t], {count, (*tables)[t].dim}));
      if (count > kMost) return InvalidArgument("There must be less than 2^31 rows; received ", count, ".");
      (*tables)[t].rows = count;
    }
    return absl::OkStatus();
  }

  absl::Status ReadColumn(int64_t c, const Tensor& ids, const Tensor& splits, const std::vector<LookupTable>& tables,
                          LookupColumn* column) const {
    if (!TensorShapeUtils::IsVector(ids.shape()) || !TensorShapeUtils::IsVector(splits.shape())) {
      return InvalidArgument("The ids and splits of column ", c, " must be vectors; received ", ids.shape().DebugString(),
                             " and ", splits.shape().DebugString(), ".");
    }
    const std::string what = absl::StrCat("column ", c);
    const int64_t count = ids.NumElements();
    column->ids = ids.flat<int64_t>().data();
    if (splits.NumElements() > 0) {
      TF_RETURN_IF_ERROR(CheckSplits(what, splits, count));
      column->splits = splits.flat<int64_t>().data();
    }
    if (std::max(count, RowsOf(ids, splits)) > kMost) {
      return InvalidArgument("A column must have less than 2^31 ids and rows; received ", count, " and ", RowsOf(ids, splits),
                             " in column ", c, ".");
    }
    if (kind_ == Ids::kAnyKey) return absl::OkStatus();
    return CheckIds(what, column->ids, column->splits, count, tables[column->table].rows);
  }

  // For `rows` columns side by side, which must have equal lengths in every row.
  static absl::Status CheckSideBySide(const LookupColumn& one, int64_t at, const LookupColumn& other, int64_t c, int64_t rows) {
    if ((one.combiner == kRows) != (other.combiner == kRows)) {
      return InvalidArgument("The columns of an output must all be pooled, or all keep a row for each id; columns ", at, " and ",
                             c, " of output ", one.output, " differ.");
    }
    if (one.combiner != kRows || one.splits == other.splits) return absl::OkStatus();
    for (int64_t b = 0; b < rows; ++b) {
      const int64_t here = one.splits ? one.splits[b + 1] : b + 1, there = other.splits ? other.splits[b + 1] : b + 1;
      if (here == there) continue;
      return InvalidArgument("Lists that run side by side must be of equal length; columns ", at, " and ", c, " differ in row ",
                             b, ".");
    }
    return absl::OkStatus();
  }

  const Ids kind_;
};

}  // namespace ctrlab
