// The raw columns of a parsing op: checks their layouts, and gives their texts in the form that kernels take.
//
//   single   [B], one value per row    joined   string [B], one list per text        ragged   [N] with splits [B + 1]

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/parsing/text.h"
#include "ops/checks.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ctrlab {

inline constexpr char kSingle[] = "single", kJoined[] = "joined", kRagged[] = "ragged";

// The common batch size of all columns, or unknown if no shape gives it. Inputs are the values, then splits of ragged columns.
inline absl::Status BatchOf(tensorflow::shape_inference::InferenceContext* c, std::vector<std::string>* layouts,
                            tensorflow::shape_inference::DimensionHandle* batch) {
  TF_RETURN_IF_ERROR(c->GetAttr("layouts", layouts));
  *batch = c->UnknownDim();
  int next = std::ssize(*layouts);
  for (int i = 0; i < std::ssize(*layouts); ++i) {
    tensorflow::shape_inference::ShapeHandle values, splits;
    if (i >= c->num_inputs()) return InvalidArgument("There must be one layout a column; received ", layouts->size(), ".");
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 1, &values));
    auto rows = c->Dim(values, 0);
    if ((*layouts)[i] == kRagged) {
      if (next >= c->num_inputs()) return InvalidArgument("There must be splits for each ragged column.");
      TF_RETURN_IF_ERROR(c->WithRank(c->input(next++), 1, &splits));
      TF_RETURN_IF_ERROR(c->Subtract(c->Dim(splits, 0), 1, &rows));
    }
    TF_RETURN_IF_ERROR(c->Merge(*batch, rows, batch));
  }
  return absl::OkStatus();
}

// The columns of a batch. `values` holds the tensors, so that the pointers stay valid.
struct RawBatch {
  tensorflow::OpInputList values, splits_list;
  std::unique_ptr<StringView[]> views;
  std::vector<const StringView*> texts;  // null for a column that is not text
  std::vector<const int64_t*> splits;    // null for a column that is not ragged
  int64_t rows = -1;
};

class RawColumns {
 public:
  // Reads the attributes "names", "layouts", "separators", "T" and "R"; reports errors to the context.
  explicit RawColumns(tensorflow::OpKernelConstruction* context) {
    int ragged;
    OP_REQUIRES_OK(context, context->GetAttr("T", &types_));
    OP_REQUIRES_OK(context, context->GetAttr("R", &ragged));
    OP_REQUIRES_OK(context, context->GetAttr("names", &names_));
    OP_REQUIRES_OK(context, context->GetAttr("layouts", &layouts_));
    OP_REQUIRES_OK(context, context->GetAttr("separators", &separators_));
    OP_REQUIRES(context, names_.size() == columns() && layouts_.size() == columns() && separators_.size() == columns(),
                InvalidArgument("There must be one name, layout and separator a column; received ", names_.size(), ", ",
                                layouts_.size(), " and ", separators_.size(), " for ", columns(), " columns."));
    for (size_t c = 0; c < columns(); ++c) {
      const bool joined = layouts_[c] == kJoined;
      OP_REQUIRES(context, joined == !separators_[c].empty() && (!joined || is_text(c)),
                  InvalidArgument("A joined column is text and has a separator, others have none; received layout ", layouts_[c],
                                  ", separator '", separators_[c], "' and ", tensorflow::DataTypeString(types_[c]), " in column ",
                                  names_[c], "."));
      lists_ += !is_single(c);
      ragged -= layouts_[c] == kRagged;
    }
    OP_REQUIRES(
        context, ragged == 0,
        InvalidArgument("There must be splits for each ragged column and no others; received ", ragged, " more than that."));
  }

  size_t columns() const { return types_.size(); }
  int lists() const { return lists_; }
  const std::string& name(size_t c) const { return names_[c]; }
  bool is_text(size_t c) const { return types_[c] == tensorflow::DT_STRING; }
  bool is_single(size_t c) const { return layouts_[c] == kSingle; }
  StringView separator(size_t c) const { return {separators_[c].data(), std::ssize(separators_[c])}; }

  absl::Status Read(tensorflow::OpKernelContext* context, RawBatch* batch) const {
    TF_RETURN_IF_ERROR(context->input_list("values", &batch->values));
    TF_RETURN_IF_ERROR(context->input_list("splits", &batch->splits_list));
    batch->texts.resize(columns());
    batch->splits.resize(columns());
    int64_t texts = 0;
    int ragged = 0;
    for (size_t c = 0; c < columns(); ++c) {
      const tensorflow::Tensor& values = batch->values[c];
      if (!tensorflow::TensorShapeUtils::IsVector(values.shape())) {
        return InvalidArgument("Column ", names_[c], " must be a vector; received ", values.shape().DebugString(), ".");
      }
      int64_t rows = values.NumElements();
      if (is_text(c)) texts += rows;
      if (layouts_[c] == kRagged) {
        const tensorflow::Tensor& splits = batch->splits_list[ragged++];
        TF_RETURN_IF_ERROR(CheckSplits(absl::StrCat("column ", names_[c]), splits, rows));
        batch->splits[c] = splits.flat<int64_t>().data();
        rows = splits.NumElements() - 1;
      }
      if (c == 0) batch->rows = rows;
      if (rows != batch->rows) {
        return InvalidArgument("All columns must have the same rows; received ", rows, " in column ", names_[c], " and ",
                               batch->rows, " in column ", names_[0], ".");
      }
    }
    batch->views = std::make_unique_for_overwrite<StringView[]>(texts);
    StringView* next = batch->views.get();
    for (size_t c = 0; c < columns(); ++c) {
      if (!is_text(c)) continue;
      batch->texts[c] = next;
      const auto strings = batch->values[c].flat<tensorflow::tstring>();
      for (int64_t i = 0; i < strings.size(); ++i) *next++ = {strings(i).data(), static_cast<int64_t>(strings(i).size())};
    }
    return absl::OkStatus();
  }

 private:
  std::vector<tensorflow::DataType> types_;
  std::vector<std::string> names_, layouts_, separators_;
  int lists_ = 0;
};

}  // namespace ctrlab
