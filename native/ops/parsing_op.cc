// Ctrlab>ParseIds and Ctrlab>ParseNumbers: every input is checked here, then kernels are called through the table.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "kernels/parsing/number.h"
#include "kernels/parsing/parsing.h"
#include "kernels/registry.h"
#include "ops/checks.h"
#include "ops/op.h"
#include "ops/parallel_for.h"
#include "ops/raw_columns.h"

namespace ctrlab {
namespace {

CTRLAB_KERNEL(id_splits);
CTRLAB_KERNEL(parse_ids);
CTRLAB_KERNEL(parse_numbers);

absl::Status ParseIdsShape(InferenceContext* c) {
  DimensionHandle batch;
  std::vector<std::string> layouts;
  TF_RETURN_IF_ERROR(BatchOf(c, &layouts, &batch));
  DimensionHandle ends;
  TF_RETURN_IF_ERROR(c->Add(batch, 1, &ends));
  std::vector<ShapeHandle> ids, lists;
  for (const std::string& layout : layouts) {
    const bool one = layout == kSingle;
    ids.push_back(c->Vector(one ? batch : c->UnknownDim()));
    if (!one) lists.push_back(c->Vector(ends));
  }
  TF_RETURN_IF_ERROR(c->set_output("ids", ids));  // refuses a wrong number of outputs
  return c->set_output("lists", lists);
}

absl::Status ParseNumbersShape(InferenceContext* c) {
  DimensionHandle batch;
  std::vector<std::string> layouts;
  TF_RETURN_IF_ERROR(BatchOf(c, &layouts, &batch));
  c->set_output(0, c->Matrix(batch, layouts.size()));
  return absl::OkStatus();
}

REGISTER_OP("Ctrlab>ParseIds")
    .Attr("T: list({string, int64}) >= 1")
    .Attr("R: int >= 0")
    .Attr("C: int >= 1")
    .Attr("L: int >= 0")
    .Attr("names: list(string)")
    .Attr("layouts: list({'single', 'joined', 'ragged'})")
    .Attr("separators: list(string)")
    .Attr("max_lengths: list(int)")
    .Attr("encodings: list({'hash', 'vocabulary', 'identity'})")
    .Attr("buckets: list(int)")
    .Attr("words: list(string)")
    .Input("values: T")
    .Input("splits: R * int64")
    .Output("ids: C * int64")
    .Output("lists: L * int64")
    .SetShapeFn(ParseIdsShape)
    .Doc(
        "Raw id columns to ids. `splits` are those of ragged columns, `lists` the splits of all list columns, `words` the "
        "vocabularies.");

REGISTER_OP("Ctrlab>ParseNumbers")
    .Attr("T: list({string, float}) >= 1")
    .Attr("R: int >= 0")
    .Attr("names: list(string)")
    .Attr("layouts: list({'single', 'joined', 'ragged'})")
    .Attr("separators: list(string)")
    .Attr("transforms: list({'none', 'log1p', 'minmax'})")
    .Attr("lows: list(float)")
    .Attr("widths: list(float)")
    .Input("values: T")
    .Input("splits: R * int64")
    .Output("numbers: float")
    .SetShapeFn(ParseNumbersShape)
    .Doc("Raw number columns, or the means of their lists, transformed, side by side.");

// The first part of `text` that `wrong` rejects, for a message.
template <class Wrong>
std::string WrongPart(StringView text, StringView separator, const Wrong& wrong) {
  constexpr int64_t kMost = 40;
  StringView found = {nullptr, -1};
  auto look = [&](const char* p, int64_t n) {
    if (found.size < 0 && wrong(p, n)) found = {p, n};
  };
  if (separator.size > 0) {
    ForEachPart(text, separator, look);
  } else {
    look(text.data, text.size);
  }
  if (found.size < 0) found = text;
  const std::string shown = absl::CEscape(absl::string_view(found.data, std::min(found.size, kMost)));
  return absl::StrCat("'", shown, found.size > kMost ? "...'" : "'");
}

// `columns`, known from the attributes, with this batch's values; those that are not text are at `numbers`.
template <class Source, class T>
std::vector<Source> OfBatch(std::vector<Source> columns, const T* Source::* numbers, const RawColumns& raw,
                            const RawBatch& batch) {
  for (size_t c = 0; c < columns.size(); ++c) {
    columns[c].texts = batch.texts[c];
    columns[c].splits = batch.splits[c];
    columns[c].*numbers = raw.is_text(c) ? nullptr : batch.values[c].flat<T>().data();
  }
  return columns;
}

class ParseIdsOp : public StatusOp {
 public:
  explicit ParseIdsOp(OpKernelConstruction* context) : StatusOp(context), raw_(context) {
    if (!context->status().ok()) return;
    std::vector<std::string> encodings;
    std::vector<int64_t> max_lengths, buckets;
    int columns, lists;
    OP_REQUIRES_OK(context, context->GetAttr("C", &columns));
    OP_REQUIRES_OK(context, context->GetAttr("L", &lists));
    OP_REQUIRES_OK(context, context->GetAttr("max_lengths", &max_lengths));
    OP_REQUIRES_OK(context, context->GetAttr("encodings", &encodings));
    OP_REQUIRES_OK(context, context->GetAttr("buckets", &buckets));
    OP_REQUIRES_OK(context, context->GetAttr("words", &words_));
    const size_t count = raw_.columns();
    OP_REQUIRES(context, static_cast<size_t>(columns) == count && lists == raw_.lists(),
                InvalidArgument("There must be one output of ids per column and one of splits per list; received ", columns,
                                " and ", lists, " for ", count, " columns."));
    OP_REQUIRES(
        context, max_lengths.size() == count && encodings.size() == count && buckets.size() == count,
        InvalidArgument("There must be one length, encoding and number of buckets a column; received ", max_lengths.size(), ", ",
                        encodings.size(), " and ", buckets.size(), " for ", count, " columns."));
    for (const std::string& word : words_) views_.push_back({word.data(), std::ssize(word)});
    int64_t word = 0;
    for (size_t c = 0; c < count; ++c) {
      OP_REQUIRES(context, buckets[c] >= 1 && max_lengths[c] >= 0,
                  InvalidArgument("Column ", raw_.name(c), " must have at least one bucket and no negative length; received ",
                                  buckets[c], " and ", max_lengths[c], "."));
      IdSource column = {};
      column.separator = raw_.separator(c);
      column.max_length = max_lengths[c];
      column.buckets = buckets[c];
      column.encoding = encodings[c] == "hash"         ? Encoding::kHash
                        : encodings[c] == "vocabulary" ? Encoding::kVocabulary
                                                       : Encoding::kIdentity;
      if (column.encoding == Encoding::kVocabulary) {
        OP_REQUIRES(context, buckets[c] <= std::ssize(words_) - word,
                    InvalidArgument("Column ", raw_.name(c), " must have a word a bucket; received ", std::ssize(words_) - word,
                                    " for ", buckets[c], "."));
        column.words = views_.data() + word;
        word += buckets[c];
      }
      OP_REQUIRES(context, column.encoding != Encoding::kHash || raw_.is_text(c),
                  InvalidArgument("Column ", raw_.name(c), " must be text to be encoded by ", encodings[c], "; received int64."));
      columns_.push_back(column);
    }
    OP_REQUIRES(context, word == std::ssize(words_),
                InvalidArgument("Each word must belong to a vocabulary; received ", words_.size() - word, " more."));
  }

 private:
  absl::Status Run(OpKernelContext* context) override {
    RawBatch batch;
    TF_RETURN_IF_ERROR(raw_.Read(context, &batch));
    const std::vector<IdSource> columns = OfBatch(columns_, &IdSource::integers, raw_, batch);
    const IdInput input = {columns.data(), std::ssize(columns), batch.rows};
    const ParallelFor pool = IntraOpPool(context);

    OpOutputList ids, lists;
    TF_RETURN_IF_ERROR(context->output_list("ids", &ids));
    TF_RETURN_IF_ERROR(context->output_list("lists", &lists));
    std::vector<int64_t*> splits(columns.size()), out(columns.size());
    int list = 0;
    for (size_t c = 0; c < columns.size(); ++c) {
      if (raw_.is_single(c)) continue;
      Tensor* tensor;
      TF_RETURN_IF_ERROR(lists.allocate(list++, TensorShape({batch.rows + 1}), &tensor));
      splits[c] = tensor->flat<int64_t>().data();
    }
    if (list > 0) id_splits_kernel(&input, splits.data(), &pool);
    for (size_t c = 0; c < columns.size(); ++c) {
      Tensor* tensor;
      TF_RETURN_IF_ERROR(ids.allocate(c, TensorShape({splits[c] ? splits[c][batch.rows] : batch.rows}), &tensor));
      out[c] = tensor->flat<int64_t>().data();
    }
    Fault fault;
    parse_ids_kernel(&input, splits.data(), out.data(), &fault, &pool);
    return fault.column < 0 ? absl::OkStatus() : Explain(columns[fault.column], fault, splits[fault.column], out[fault.column]);
  }

  absl::Status Explain(const IdSource& column, const Fault& fault, const int64_t* splits, const int64_t* ids) const {
    int64_t ignored;
    auto wrong = [&](const char* p, int64_t n) { return !ParseInt(p, n, &ignored) || ignored < 0 || ignored >= column.buckets; };
    std::string received;
    const int64_t least = column.texts ? 0 : LeastId(column);
    const int64_t b = fault.row;
    int64_t i = column.splits ? column.splits[b] : b;
    const int64_t end = column.splits ? column.splits[b + 1] : b + 1;
    if (column.texts) {
      while (column.splits && i + 1 < end && !wrong(column.texts[i].data, column.texts[i].size)) ++i;
      received = WrongPart(column.texts[i], column.separator, wrong);
    } else {
      while (i + 1 < end && column.integers[i] >= least && column.integers[i] < column.buckets) ++i;
      received = absl::StrCat(column.integers[i]);
    }
    return InvalidArgument("Ids of column ", raw_.name(fault.column), " must be whole numbers in [", least, ", ", column.buckets,
                           "); received ", received, " in row ", b, ".");
  }

  RawColumns raw_;
  std::vector<std::string> words_;
  std::vector<StringView> views_;
  std::vector<IdSource> columns_;
};

class ParseNumbersOp : public StatusOp {
 public:
  explicit ParseNumbersOp(OpKernelConstruction* context) : StatusOp(context), raw_(context) {
    if (!context->status().ok()) return;
    std::vector<std::string> transforms;
    std::vector<float> lows, widths;
    OP_REQUIRES_OK(context, context->GetAttr("transforms", &transforms));
    OP_REQUIRES_OK(context, context->GetAttr("lows", &lows));
    OP_REQUIRES_OK(context, context->GetAttr("widths", &widths));
    const size_t count = raw_.columns();
    OP_REQUIRES(context, transforms.size() == count && lows.size() == count && widths.size() == count,
                InvalidArgument("There must be one transform, low and width a column; received ", transforms.size(), ", ",
                                lows.size(), " and ", widths.size(), " for ", count, " columns."));
    for (size_t c = 0; c < count; ++c) {
      const bool text = raw_.is_text(c), joined = raw_.separator(c).size > 0;
      OP_REQUIRES(context, text == joined,
                  InvalidArgument("Column ", raw_.name(c), " must be numbers, or lists of numbers joined in text; received ",
                                  text ? "text that is no list." : "numbers with a separator."));
      NumberSource column = {};
      column.separator = raw_.separator(c);
      column.transform = transforms[c] == "none"    ? Transform::kNone
                         : transforms[c] == "log1p" ? Transform::kLog1p
                                                    : Transform::kMinMax;
      column.low = lows[c];
      column.width = widths[c];
      columns_.push_back(column);
    }
  }

 private:
  absl::Status Run(OpKernelContext* context) override {
    RawBatch batch;
    TF_RETURN_IF_ERROR(raw_.Read(context, &batch));
    const std::vector<NumberSource> columns = OfBatch(columns_, &NumberSource::numbers, raw_, batch);
    const NumberInput input = {columns.data(), std::ssize(columns), batch.rows};
    Tensor* out;
    TF_RETURN_IF_ERROR(context->allocate_output(0, TensorShape({batch.rows, input.column_count}), &out));
    const ParallelFor pool = IntraOpPool(context);
    Fault fault;
    parse_numbers_kernel(&input, out->flat<float>().data(), &fault, &pool);
    if (fault.column < 0) return absl::OkStatus();
    float ignored;
    const NumberSource& column = columns[fault.column];
    const std::string received = WrongPart(column.texts[fault.row], column.separator,
                                           [&](const char* p, int64_t n) { return !ParseFloat(p, n, &ignored); });
    return InvalidArgument("The parts of column ", raw_.name(fault.column), " must be numbers; received ", received, " in row ",
                           fault.row, ".");
  }

  RawColumns raw_;
  std::vector<NumberSource> columns_;
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>ParseIds").Device(DEVICE_CPU), ParseIdsOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>ParseNumbers").Device(DEVICE_CPU), ParseNumbersOp);

}  // namespace
}  // namespace ctrlab
