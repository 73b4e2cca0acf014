// The rows of dense tables that steps change, logged for consumers: the log as a resource, marks, cuts.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ops/checks.h"
#include "ops/consumer.h"
#include "table/row_changes.h"

namespace ctrlab {
namespace {

using embedding::RowChanges;

class LogResource : public tensorflow::ResourceBase {
 public:
  static constexpr char kKind[] = "a change log";

  LogResource(std::string name, int64_t rows) : name_(std::move(name)), changes_(rows) {}

  std::string DebugString() const override { return absl::StrCat("the changes of ", name_); }
  int64_t MemoryUsed() const override { return changes_.bytes(); }
  const std::string& name() const { return name_; }
  RowChanges& log() { return changes_; }
  absl::Status Told(const embedding::Status& status) const {
    return status.ok() ? absl::OkStatus() : InvalidArgument("Table ", name_, ": ", status.problem());
  }

 private:
  const std::string name_;
  RowChanges changes_;
};

using LogOp = ResourceOp<LogResource>;

REGISTER_OP("Ctrlab>ChangeLog")
    .Attr("table_name: string")
    .Attr("rows: int >= 0")
    .Output("log: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc("A log of which rows of a dense table change. It lives as long as its handle.");

class ChangeLogOp : public StatusOp {
 public:
  explicit ChangeLogOp(OpKernelConstruction* context) : StatusOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("table_name", &name_));
    OP_REQUIRES_OK(context, context->GetAttr("rows", &rows_));
  }

 private:
  absl::Status Run(OpKernelContext* context) override { return WriteHandle(context, new LogResource(name_, rows_)); }

  std::string name_;
  int64_t rows_;
};

REGISTER_OP("Ctrlab>MarkChanges")
    .Attr("T: int >= 1")
    .Input("logs: T * resource")
    .Input("variables: T * resource")
    .Input("ids: T * int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(
        "These rows of the tables have changed. The variables' handles are not used: for them an op in a function waits for "
        "those that changed the variables.");

class MarkChangesOp : public StatusOp {
 public:
  using StatusOp::StatusOp;

 private:
  absl::Status Run(OpKernelContext* context) override {
    OpInputList handles, ids;
    TF_RETURN_IF_ERROR(context->input_list("logs", &handles));
    TF_RETURN_IF_ERROR(context->input_list("ids", &ids));
    std::vector<tensorflow::core::RefCountPtr<LogResource>> logs(handles.size());
    for (int t = 0; t < handles.size(); ++t) {
      TF_RETURN_IF_ERROR(FindResource(context, handles[t], &logs[t]));
      const auto id = ids[t].flat<int64_t>();
      const int64_t rows = logs[t]->log().rows();
      const auto bad = std::find_if(id.data(), id.data() + id.size(), [&](int64_t i) { return i < 0 || i >= rows; });
      if (bad == id.data() + id.size()) continue;
      return InvalidArgument("The rows of ", logs[t]->name(), " are in [0, ", rows, "); received ", *bad, ".");
    }
    for (int t = 0; t < handles.size(); ++t) logs[t]->log().Mark(ids[t].flat<int64_t>().data(), ids[t].NumElements());
    return absl::OkStatus();
  }
};

REGISTER_OP("Ctrlab>ChangesStartAnew")
    .Input("log: resource")
    .Input("variable: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(
        "All rows of the table have changed: all consumers are given everything. The variable is for what it is in MarkChanges.");

class ChangesStartAnewOp : public LogOp {
 public:
  using LogOp::LogOp;

 private:
  absl::Status Run(OpKernelContext*, LogResource& log) override {
    log.log().StartAnew();
    return absl::OkStatus();
  }
};

REGISTER_OP("Ctrlab>ChangesCut")
    .Input("log: resource")
    .Input("consumer: string")
    .Output("numbers: int64")
    .Output("ids: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(2));
      c->set_output(1, c->Vector(c->UnknownDim()));
      return absl::OkStatus();
    })
    .Doc(
        "The rows that changed since the version that a consumer confirmed, ascending. `numbers`: that version, or -1 where the "
        "consumer is to be given everything; the version of this cut.");

class ChangesCutOp : public LogOp {
 public:
  using LogOp::LogOp;

 private:
  absl::Status Run(OpKernelContext* context, LogResource& log) override {
    std::string consumer;
    TF_RETURN_IF_ERROR(ReadConsumer(context, &consumer));
    const RowChanges::Cut cut = log.log().CutFor(consumer);
    TF_RETURN_IF_ERROR(WriteNumbers(context, 0, {cut.since, cut.version}));
    Tensor* ids;
    TF_RETURN_IF_ERROR(context->allocate_output(1, TensorShape({std::ssize(cut.ids)}), &ids));
    std::copy(cut.ids.begin(), cut.ids.end(), ids->flat<int64_t>().data());
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>ChangeLog").Device(DEVICE_CPU), ChangeLogOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>MarkChanges").Device(DEVICE_CPU), MarkChangesOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>ChangesStartAnew").Device(DEVICE_CPU), ChangesStartAnewOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>ChangesCut").Device(DEVICE_CPU), ChangesCutOp);
CTRLAB_CONSUMER_OPS("Ctrlab>Changes", "log", LogResource);

}  // namespace
}  // namespace ctrlab
