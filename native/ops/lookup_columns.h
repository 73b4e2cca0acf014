// What the ops that look up many columns share: which column reads which table and where its numbers go, and every check of the
// columns of a batch.

#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "kernels/lookup.h"
#include "ops/checks.h"
#include "ops/op.h"
#include "ops/parallel_for.h"

namespace ctrlab {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();  // rows of a table, ids of a column, numbers of a row

// What a column may hold: places of a table, or -1 for "unknown"; or any key at all, none of which is unknown.
enum class Ids { kPlaces, kAnyKey };

// What an op's attributes say: which column reads which table and where its numbers go.
struct Plan {
  std::vector<LookupTable> tables;    // [T]
  std::vector<LookupColumn> columns;  // [C], without ids and splits
  std::vector<int64_t> widths;        // [M]

  // Of an op that is made, or whose shapes are inferred. Tables that hold any key say no number of rows.
  template <class Attributes>
  absl::Status Read(Attributes* attributes, Ids ids) {
    std::vector<int64_t> rows, dims, table_of, output_of;
    std::vector<std::string> combiners;
    int count, outputs, table_count;
    TF_RETURN_IF_ERROR(attributes->GetAttr("T", &table_count));
    TF_RETURN_IF_ERROR(attributes->GetAttr("C", &count));
    TF_RETURN_IF_ERROR(attributes->GetAttr("M", &outputs));
    TF_RETURN_IF_ERROR(attributes->GetAttr("table_dims", &dims));
    if (ids == Ids::kAnyKey) {
      rows.assign(dims.size(), kMost);
    } else {
      TF_RETURN_IF_ERROR(attributes->GetAttr("table_rows", &rows));
    }
    TF_RETURN_IF_ERROR(attributes->GetAttr("table_of", &table_of));
    TF_RETURN_IF_ERROR(attributes->GetAttr("output_of", &output_of));
    TF_RETURN_IF_ERROR(attributes->GetAttr("combiners", &combiners));
    const int64_t wanted = count, here[] = {std::ssize(table_of), std::ssize(output_of), std::ssize(combiners)};
    if (std::any_of(std::begin(here), std::end(here), [&](int64_t n) { return n != wanted; })) {
      return InvalidArgument("There must be one table, output and combiner a column; received ", here[0], ", ", here[1], " and ",
                             here[2], " for ", count, " columns.");
    }
    if (std::ssize(rows) != table_count || std::ssize(dims) != table_count) {
      return InvalidArgument("Each of ", table_count, " tables has a number of rows and a dimension; received ", rows.size(),
                             " and ", dims.size(), ".");
    }
    for (size_t t = 0; t < rows.size(); ++t) {
      if (rows[t] < 1 || rows[t] > kMost || dims[t] < 1 || dims[t] > kMost) {
        return InvalidArgument("A table's rows and dimension must be in [1, ", kMost, "]; table ", t, " has [", rows[t], ", ",
                               dims[t], "].");
      }
      tables.push_back({rows[t], dims[t]});
    }
    widths.assign(outputs, 0);
    for (int c = 0; c < count; ++c) TF_RETURN_IF_ERROR(AddColumn(c, table_of[c], output_of[c], combiners[c]));
    const auto empty = std::find(widths.begin(), widths.end(), 0);
    if (empty != widths.end()) return InvalidArgument("Output ", empty - widths.begin(), " must have a column; it has none.");
    return absl::OkStatus();
  }

  absl::Status AddColumn(int c, int64_t table, int64_t output, const std::string& combiner) {
    if (table < 0 || table >= std::ssize(tables) || output < 0 || output >= std::ssize(widths)) {
      return InvalidArgument("Column ", c, " must name one of ", tables.size(), " tables and ", widths.size(),
                             " outputs; received ", table, " and ", output, ".");
    }
    const char* names[] = {"rows", "sum", "mean"};
    const auto name = std::find(std::begin(names), std::end(names), combiner);
    if (name == std::end(names)) {
      return InvalidArgument("The combiner of column ", c, " must be rows, sum or mean; received ", combiner, ".");
    }
    columns.push_back({nullptr, nullptr, table, output, widths[output], static_cast<Combiner>(name - std::begin(names))});
    widths[output] += tables[table].dim;
    return absl::OkStatus();
  }
};

inline absl::Status LookupShape(InferenceContext* c, Ids kind) {
  Plan plan;
  TF_RETURN_IF_ERROR(plan.Read(c, kind));
  std::vector<ShapeHandle> ids, splits;
  TF_RETURN_IF_ERROR(c->input("ids", &ids));
  TF_RETURN_IF_ERROR(c->input("splits", &splits));
  std::vector<DimensionHandle> rows;
  for (size_t m = 0; m < plan.widths.size(); ++m) rows.push_back(c->UnknownDim());  // not the same for all: they are merged
  for (size_t i = 0; i < plan.columns.size(); ++i) {
    const LookupColumn& column = plan.columns[i];
    TF_RETURN_IF_ERROR(c->WithRank(ids[i], 1, &ids[i]));
    TF_RETURN_IF_ERROR(c->WithRank(splits[i], 1, &splits[i]));
    const DimensionHandle ends = c->Dim(splits[i], 0);
    DimensionHandle here = c->Dim(ids[i], 0);
    if (column.combiner != kRows && !c->ValueKnown(ends)) here = c->UnknownDim();
    if (column.combiner != kRows && c->ValueKnown(ends) && c->Value(ends) > 0) TF_RETURN_IF_ERROR(c->Subtract(ends, 1, &here));
    TF_RETURN_IF_ERROR(c->Merge(rows[column.output], here, &rows[column.output]));
  }
  for (size_t m = 0; m < rows.size(); ++m) c->set_output(m, c->Matrix(rows[m], plan.widths[m]));
  return absl::OkStatus();
}

class LookupBase : public StatusOp {
 public:
  LookupBase(OpKernelConstruction* context, Ids kind) : StatusOp(context), kind_(kind) {
    OP_REQUIRES_OK(context, plan_.Read(context, kind));
  }

 protected:
  // The columns of one call, as the kernels take them. The op's inputs outlive it.
  struct Batch {
    std::vector<LookupColumn> columns;
    std::vector<int64_t> output_rows;  // [M]
    LookupInput input;
  };

  absl::Status Read(OpKernelContext* context, Batch* batch) const {
    OpInputList ids, splits;
    TF_RETURN_IF_ERROR(context->input_list("ids", &ids));
    TF_RETURN_IF_ERROR(context->input_list("splits", &splits));
    batch->columns = plan_.columns;
    const int64_t count = std::ssize(batch->columns);
    std::vector<absl::Status> found(count);
    int64_t total = 0;
    for (const Tensor& column : ids) total += column.NumElements();
    IntraOpPool(context)(count, total / count, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) found[c] = ReadColumn(c, ids[c], splits[c], &batch->columns[c]);
    });
    for (const absl::Status& status : found) TF_RETURN_IF_ERROR(status);

    const int64_t rows = RowsOf(ids[0], splits[0]);
    batch->output_rows.assign(plan_.widths.size(), -1);
    std::vector<int64_t> first(plan_.widths.size(), -1);  // of each output, the first column
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
    batch->input = {batch->columns.data(), count, plan_.tables.data(), std::ssize(plan_.tables), plan_.widths.data(), rows};
    return absl::OkStatus();
  }

  Plan plan_;

 private:
  static int64_t RowsOf(const Tensor& ids, const Tensor& splits) {
    return splits.NumElements() ? splits.NumElements() - 1 : ids.NumElements();
  }

  absl::Status ReadColumn(int64_t c, const Tensor& ids, const Tensor& splits, LookupColumn* column) const {
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
    return CheckIds(what, column->ids, column->splits, count, plan_.tables[column->table].rows);
  }

  // Where each id has a row of its own, columns side by side must be cut into rows alike.
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
