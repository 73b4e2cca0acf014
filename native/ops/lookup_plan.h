// The layout of a lookup, from an op's attributes: each column's table and its place in an output; and the resulting shapes.

#pragma once

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "kernels/lookup/lookup.h"
#include "kernels/lookup/row_format.h"
#include "ops/errors.h"
#include "ops/op.h"

namespace ctrlab {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();  // rows per table, ids per column, numbers per row

// The ids of a column: rows of a table, or -1 for "unknown"; the same, of a tensor whose rows are known when the op runs; or any
// key, without "unknown".
enum class Ids { kPlaces, kRowsOfTensors, kAnyKey };

// The attribute `row_formats`: a format of each table, by name.
template <class Attributes>
absl::Status ReadRowFormats(Attributes* attributes, std::vector<RowFormat>* formats) {
  std::vector<std::string> names;
  TF_RETURN_IF_ERROR(attributes->GetAttr("row_formats", &names));
  for (const std::string& name : names) {
    const auto found = std::find(std::begin(kRowFormats), std::end(kRowFormats), name);
    if (found == std::end(kRowFormats)) {
      return InvalidArgument("A table's rows must be float32, bf16 or int8; received ", name, ".");
    }
    formats->push_back(static_cast<RowFormat>(found - std::begin(kRowFormats)));
  }
  return absl::OkStatus();
}

struct Plan {
  std::vector<LookupTable> tables;    // [T]
  std::vector<LookupColumn> columns;  // [C], without ids and splits
  std::vector<int64_t> widths;        // [M]

  // For an op that is constructed, or for shape inference. Tables with arbitrary keys have no number of rows.
  template <class Attributes>
  absl::Status Read(Attributes* attributes, Ids ids) {
    std::vector<int64_t> rows, dims, table_of, output_of;
    std::vector<std::string> combiners;
    int count, outputs, table_count;
    TF_RETURN_IF_ERROR(attributes->GetAttr("T", &table_count));
    TF_RETURN_IF_ERROR(attributes->GetAttr("C", &count));
    TF_RETURN_IF_ERROR(attributes->GetAttr("M", &outputs));
    TF_RETURN_IF_ERROR(attributes->GetAttr("table_dims", &dims));
    if (ids != Ids::kPlaces) {
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
      if (rows[t] < 0 || rows[t] > kMost || dims[t] < 1 || dims[t] > kMost) {  // without rows: a shard of a tiny table
        return InvalidArgument("A table has at most ", kMost, " rows, and a dimension of 1 to as much; table ", t, " has [",
                               rows[t], ", ", dims[t], "].");
      }
      tables.push_back({rows[t], dims[t]});
    }
    widths.assign(outputs, 0);
    for (int c = 0; c < count; ++c) TF_RETURN_IF_ERROR(AddColumn(c, table_of[c], output_of[c], combiners[c]));
    const auto empty = std::find(widths.begin(), widths.end(), 0);
    if (empty != widths.end()) return InvalidArgument("Output ", empty - widths.begin(), " must have a column; it has none.");
    return ids == Ids::kAnyKey ? CheckTimes(attributes) : absl::OkStatus();
  }

  // Reads the attribute K: the number of columns with times. A pooled column can't have times, because its keys are not merged
  // before they are sent.
  template <class Attributes>
  absl::Status CheckTimes(Attributes* attributes) const {
    int counted;
    TF_RETURN_IF_ERROR(attributes->GetAttr("K", &counted));
    if (counted == 0) return absl::OkStatus();
    if (counted != std::ssize(columns)) {
      return InvalidArgument("All columns have times, or none; received those of ", counted, " for ", columns.size(),
                             " columns.");
    }
    const auto pooled = std::find_if(columns.begin(), columns.end(), [](const auto& column) { return column.combiner != kRows; });
    if (pooled == columns.end()) return absl::OkStatus();
    return InvalidArgument("Only columns under the combiner rows have times; column ", pooled - columns.begin(), " is pooled.");
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

// The outputs [rows, width] of a lookup.
inline absl::Status LookupShape(InferenceContext* c, Ids kind) {
  Plan plan;
  TF_RETURN_IF_ERROR(plan.Read(c, kind));
  std::vector<ShapeHandle> ids, splits;
  TF_RETURN_IF_ERROR(c->input("ids", &ids));
  TF_RETURN_IF_ERROR(c->input("splits", &splits));
  std::vector<DimensionHandle> rows;
  for (size_t m = 0; m < plan.widths.size(); ++m) rows.push_back(c->UnknownDim());  // may differ between outputs: they are merged
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

// The shapes of the gradient: each table's merged ids, further tensors with one number per id, and the ids' rows.
inline absl::Status MergedShape(InferenceContext* c, Ids kind, std::initializer_list<const char*> one_an_id) {
  Plan plan;
  TF_RETURN_IF_ERROR(plan.Read(c, kind));
  std::vector<ShapeHandle> ids, rows;
  for (const LookupTable& table : plan.tables) {
    const DimensionHandle unique = c->UnknownDim();
    ids.push_back(c->Vector(unique));
    rows.push_back(c->Matrix(unique, table.dim));
  }
  for (const char* output : one_an_id) TF_RETURN_IF_ERROR(c->set_output(output, ids));
  return c->set_output("merged_rows", rows);
}

}  // namespace ctrlab
