// Ctrlab>ParquetDataset: batches of the rows of Parquet files, for tf.data.

#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/errors.h"
#include "reader/rows.h"
#include "reader/tensors.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ctrlab::parquet {
namespace {

using tensorflow::DataType;
using tensorflow::DataTypeVector;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;
using tensorflow::data::DatasetBase;
using tensorflow::data::DatasetContext;
using tensorflow::data::DatasetIterator;
using tensorflow::data::DatasetOpKernel;
using tensorflow::data::IteratorBase;
using tensorflow::data::IteratorContext;
using tensorflow::data::IteratorStateReader;
using tensorflow::data::IteratorStateWriter;
using tensorflow::data::SerializationContext;

REGISTER_OP("Ctrlab>ParquetDataset")
    .Attr("N: int >= 0")
    .Attr("columns: list(string) >= 1")
    .Attr("kinds: list({'float', 'int32', 'int64', 'text'}) >= 1")
    .Attr("forms: list({'one', 'list', 'joined'}) >= 1")
    .Attr("fallbacks: list(string) >= 1")
    .Attr("separators: list(string) >= 1")
    .Attr("required: list(bool) >= 1")
    .Attr("rules: list({'any', 'finite', 'binary', 'share'}) >= 1")
    .Attr("musts: list(string) >= 1")
    .Attr("labels: int >= 1")
    .Attr("batch_size: int >= 1")
    .Attr("drop_remainder: bool")
    .Attr("shard_index: int >= 0")
    .Attr("shard_count: int >= 1")
    .Attr("epochs: int >= -1")
    .Attr("start: int >= 0")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .Input("order: N * variant")
    .Input("files: string")
    .Output("handle: variant")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->Scalar());
      return absl::OkStatus();
    })
    .Doc(R"(Rows of Parquet files in batches: each column, then the last `labels` columns side by side, [B, K].

rules, musts: what floats may be, for the machine and in words.
A number is float, int32 or int64 [B]; text string [B]; a list a ragged tensor with int64 splits, or with form 'joined' text.
order: of at most one data set, whose elements int64 [B] are the rows of each batch by their places in an epoch; without it they
come as they lie. Either way they are those of the shard, over and over, but for the first `start` rows, whole batches of it.)");

struct Options {
  std::vector<std::string> columns, kinds, forms, fallbacks, separators, rules, musts;
  std::vector<bool> required;
  int64_t labels, batch_size, shard_index, shard_count, epochs, start;
  bool drop_remainder;
  DataTypeVector types;
  std::vector<PartialTensorShape> shapes;

  // Calls `use` for each attribute with its name, to read it from an op or to write it to a graph.
  template <class Use>
  void Each(Use use) {
    use("columns", &columns), use("kinds", &kinds), use("forms", &forms), use("fallbacks", &fallbacks);
    use("separators", &separators), use("required", &required), use("rules", &rules), use("musts", &musts),
        use("labels", &labels), use("batch_size", &batch_size);
    use("drop_remainder", &drop_remainder), use("shard_index", &shard_index), use("shard_count", &shard_count);
    use("epochs", &epochs), use("start", &start), use("output_types", &types), use("output_shapes", &shapes);
  }
};

absl::Status FromArrow(const arrow::Status& status) {
  if (status.ok()) return absl::OkStatus();
  if (status.IsIOError()) return absl::DataLossError(status.message());
  if (status.IsOutOfMemory()) return absl::ResourceExhaustedError(status.message());
  return absl::InvalidArgumentError(status.message());
}

class ParquetDataset : public DatasetBase {
 public:
  ParquetDataset(OpKernelContext* context, DatasetBase* order, Plan plan, Options options)
      : DatasetBase(DatasetContext(context)), order_(order), plan_(std::move(plan)), options_(std::move(options)) {
    if (order_) order_->Ref();
  }
  ~ParquetDataset() override {
    if (order_) order_->Unref();
  }

  const DataTypeVector& output_dtypes() const override { return options_.types; }
  const std::vector<PartialTensorShape>& output_shapes() const override { return options_.shapes; }
  std::string DebugString() const override { return absl::StrCat("Ctrlab>ParquetDataset of ", plan_.files.size(), " files"); }
  absl::Status CheckExternalState() const override { return order_ ? order_->CheckExternalState() : absl::OkStatus(); }
  absl::Status InputDatasets(std::vector<const DatasetBase*>* inputs) const override {
    if (order_) inputs->push_back(order_);
    return absl::OkStatus();
  }

  int64_t CardinalityInternal(tensorflow::data::CardinalityOptions) const override {
    if (options_.epochs < 0) return tensorflow::data::kInfiniteCardinality;
    const int64_t rows = std::max<int64_t>(0, end() - options_.start), size = options_.batch_size;
    return options_.drop_remainder ? rows / size : (rows + size - 1) / size;
  }

  std::unique_ptr<IteratorBase> MakeIteratorInternal(const std::string& prefix) const override {
    return std::make_unique<Iterator>(Iterator::Params{this, absl::StrCat(prefix, "::Parquet")});
  }

 protected:
  absl::Status AsGraphDefInternal(SerializationContext* context, DatasetGraphDefBuilder* builder,
                                  tensorflow::Node** output) const override {
    std::vector<tensorflow::Node*> order(order_ ? 1 : 0);
    if (order_) TF_RETURN_IF_ERROR(builder->AddInputDataset(context, order_, &order[0]));
    tensorflow::Node* files;
    TF_RETURN_IF_ERROR(builder->AddVector(plan_.files, &files));
    std::vector<std::pair<absl::string_view, tensorflow::AttrValue>> attributes;
    attributes.emplace_back("N", builder->BuildAttrValue(static_cast<int64_t>(order.size())));
    Options options = options_;
    options.Each([&](const char* name, const auto* value) { attributes.emplace_back(name, builder->BuildAttrValue(*value)); });
    return builder->AddDataset(this, {{1, files}}, {{0, order}}, attributes, output);
  }

 private:
  Shard shard() const { return {options_.shard_index, options_.shard_count}; }
  int64_t in_epoch() const { return shard().Of(plan_.rows); }
  int64_t end() const { return options_.epochs < 0 ? std::numeric_limits<int64_t>::max() : options_.epochs * in_epoch(); }

  class Iterator : public DatasetIterator<ParquetDataset> {
   public:
    explicit Iterator(const Params& params) : DatasetIterator(params), window_(params.dataset->plan_, params.dataset->shard()) {}

    absl::Status Initialize(IteratorContext* context) override {
      done_ = dataset()->options_.start;
      const int64_t in_epoch = dataset()->in_epoch();
      if (dataset()->order_) return dataset()->order_->MakeIterator(context, this, prefix(), &order_);
      if (in_epoch && done_ < dataset()->end()) window_.StartAt(RowAt(done_));
      return absl::OkStatus();
    }

   protected:
    absl::Status GetNextInternal(IteratorContext* context, std::vector<Tensor>* out, bool* at_end) override {
      const std::lock_guard lock(mutex_);
      *at_end = failed_;  // otherwise a caller that continues after an error would get it again and again
      if (failed_) return absl::OkStatus();
      absl::Status status;
      try {
        status = Next(context, out, at_end);
      } catch (const std::exception& error) {
        status = absl::InternalError(absl::StrCat("Parquet could not be read: ", error.what()));
      }
      failed_ = !status.ok();
      return status;
    }

    absl::Status SaveInternal(SerializationContext*, IteratorStateWriter*) override { return NoState(); }
    absl::Status RestoreInternal(IteratorContext*, IteratorStateReader*) override { return NoState(); }

   private:
    static absl::Status NoState() {
      return absl::UnimplementedError("A Parquet reader's state is the number of its batches; give it to read(..., start=).");
    }

    // The row number in the stream of epochs, for the shard's row with this number.
    int64_t RowAt(int64_t number) const {
      const Shard shard = dataset()->shard();
      const int64_t in_epoch = dataset()->in_epoch();
      return number / in_epoch * dataset()->plan_.rows + shard.index + number % in_epoch * shard.count;
    }

    absl::Status Next(IteratorContext* context, std::vector<Tensor>* out, bool* at_end) {
      const Options& options = dataset()->options_;
      TF_RETURN_IF_ERROR(order_ ? Ordered(context, at_end) : InFileOrder(at_end));
      const int64_t rows = static_cast<int64_t>(rows_.size());
      *at_end = *at_end || !rows || (options.drop_remainder && rows < options.batch_size);
      if (*at_end) return absl::OkStatus();
      TF_RETURN_IF_ERROR(FromArrow(window_.Take(rows_.data(), rows, &runs_)));
      const Tensors tensors(runs_, rows, context->allocator({}));
      const std::vector<ColumnSpec>& columns = dataset()->plan_.columns;
      const int features = static_cast<int>(columns.size() - options.labels);
      for (int c = 0; c < features; ++c) out->push_back(tensors.Make(c, columns[c]));
      out->push_back(tensors.Labels(features, static_cast<int>(columns.size())));
      return absl::OkStatus();
    }

    // The next batch's rows, by their numbers in the stream of epochs.
    absl::Status InFileOrder(bool* at_end) {
      const int64_t count = std::min(dataset()->options_.batch_size, std::max<int64_t>(0, dataset()->end() - done_));
      *at_end = dataset()->in_epoch() == 0;
      rows_.resize(*at_end ? 0 : count);
      for (int64_t& row : rows_) row = RowAt(done_++);
      return absl::OkStatus();
    }

    absl::Status Ordered(IteratorContext* context, bool* at_end) {
      for (int64_t skipped = 0; !started_ && skipped < dataset()->options_.start; skipped += rows_.size()) {
        if (!skipped) done_ = 0;
        TF_RETURN_IF_ERROR(Numbers(context, at_end));
        if (*at_end) return absl::OkStatus();
        TF_RETURN_IF_ERROR(FromArrow(window_.Skip(rows_.data(), static_cast<int64_t>(rows_.size()))));
      }
      started_ = true;
      return Numbers(context, at_end);
    }

    absl::Status Numbers(IteratorContext* context, bool* at_end) {
      std::vector<Tensor> element;
      TF_RETURN_IF_ERROR(order_->GetNext(context, &element, at_end));
      rows_.clear();
      if (*at_end) return absl::OkStatus();
      if (element.size() != 1 || element[0].dtype() != tensorflow::DT_INT64 || element[0].dims() != 1) {
        return InvalidArgument("The rows of a batch must be one vector of int64.");
      }
      const int64_t total = dataset()->plan_.rows;
      const auto places = element[0].vec<int64_t>();
      for (int64_t i = 0; i < places.size(); ++i) {
        if (places(i) < 0 || places(i) >= total) {
          return InvalidArgument("Rows must be in [0, ", total, "); received ", places(i), ".");
        }
        rows_.push_back(done_++ / dataset()->in_epoch() * total + places(i));
      }
      return absl::OkStatus();
    }

    std::mutex mutex_;
    std::unique_ptr<IteratorBase> order_;
    Window window_;
    int64_t done_ = 0;  // rows of the shard so far, including those skipped at the start
    bool started_ = false, failed_ = false;
    std::vector<int64_t> rows_;
    std::vector<Run> runs_;
  };

  DatasetBase* const order_;  // null: in file order
  const Plan plan_;
  const Options options_;
};

class ParquetDatasetOp : public DatasetOpKernel {
 public:
  explicit ParquetDatasetOp(OpKernelConstruction* context) : DatasetOpKernel(context) {
    options_.Each([&](const char* name, auto* value) { OP_REQUIRES_OK(context, context->GetAttr(name, value)); });
  }

  void MakeDataset(OpKernelContext* context, DatasetBase** output) override { OP_REQUIRES_OK(context, Make(context, output)); }

 private:
  absl::Status Make(OpKernelContext* context, DatasetBase** output) {
    std::vector<tstring> files;
    TF_RETURN_IF_ERROR(tensorflow::data::ParseVectorArgument<tstring>(context, "files", &files));
    std::vector<ColumnSpec> columns;
    TF_RETURN_IF_ERROR(Columns(&columns));
    tensorflow::OpInputList orders;
    TF_RETURN_IF_ERROR(context->input_list("order", &orders));
    if (orders.size() > 1) return InvalidArgument("There is one order at most; received ", orders.size(), ".");
    DatasetBase* order = nullptr;
    if (orders.size()) TF_RETURN_IF_ERROR(tensorflow::data::GetDatasetFromVariantTensor(orders[0], &order));
    arrow::Result<Plan> plan = MakePlan({files.begin(), files.end()}, std::move(columns));
    TF_RETURN_IF_ERROR(FromArrow(plan.status()));
    *output = new ParquetDataset(context, order, std::move(*plan), options_);
    return absl::OkStatus();
  }

  absl::Status Columns(std::vector<ColumnSpec>* columns) const {
    const size_t count = options_.columns.size(), features = count - options_.labels;
    for (const size_t size : {options_.kinds.size(), options_.forms.size(), options_.fallbacks.size(), options_.separators.size(),
                              options_.required.size(), options_.rules.size(), options_.musts.size()}) {
      if (size != count) return InvalidArgument("Each of the ", count, " columns must be described; ", size, " are.");
    }
    if (static_cast<size_t>(options_.labels) > count) {
      return InvalidArgument("The last columns are labels; received ", options_.labels, " labels in ", count, " columns.");
    }
    if (options_.types.size() != features + 1 || options_.shapes.size() != features + 1) {
      return InvalidArgument("Each feature is an output, and the labels together; received ", options_.types.size(), " types.");
    }
    if (options_.shard_index >= options_.shard_count) {
      return InvalidArgument("A shard's index must be below ", options_.shard_count, "; received ", options_.shard_index, ".");
    }
    for (size_t c = 0; c < count; ++c) {
      const std::string &kind = options_.kinds[c], &form = options_.forms[c], &rule = options_.rules[c];
      columns->push_back({
          .name = options_.columns[c],
          .kind = kind == "float"   ? Kind::kFloat
                  : kind == "int32" ? Kind::kInt32
                  : kind == "int64" ? Kind::kInt64
                                    : Kind::kText,
          .form = form == "one"    ? ColumnSpec::kOne
                  : form == "list" ? ColumnSpec::kList
                                   : ColumnSpec::kJoined,
          .fallback = options_.fallbacks[c],
          .separator = options_.separators[c],
          .required = options_.required[c],
          .rule = rule == "finite"   ? Rule::kFinite
                  : rule == "binary" ? Rule::kBinary
                  : rule == "share"  ? Rule::kShare
                                     : Rule::kAny,
          .must = options_.musts[c],
      });
      const ColumnSpec& spec = columns->back();
      if (c >= features && (spec.kind != Kind::kFloat || spec.form != ColumnSpec::kOne)) {
        return InvalidArgument("Labels must be float; column '", spec.name, "' is not.");
      }
      const DataType made = spec.form == ColumnSpec::kList     ? tensorflow::DT_VARIANT
                            : spec.form == ColumnSpec::kJoined ? tensorflow::DT_STRING
                                                               : TypeOf(spec.kind);
      if (c < features && options_.types[c] != made) {
        return InvalidArgument("Column '", spec.name, "' gives ", tensorflow::DataTypeString(made), ".");
      }
    }
    return absl::OkStatus();
  }

  Options options_;
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>ParquetDataset").Device(tensorflow::DEVICE_CPU), ParquetDatasetOp);

}  // namespace
}  // namespace ctrlab::parquet
