// The ops of an exported model: they open its bundle of weights, and give tables and dense tensors to the graph.
//
// No op passes the bundle on: each finds it by the name that the export gave it, in its attribute `bundle`. So a call of the model
// runs two ops for all of its weights. A session holds the bundle that it has opened as long as it exists; eager TensorFlow, which
// has one session, as long as the process.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ops/checks.h"
#include "ops/embedding_table.h"
#include "ops/lookup_plan.h"
#include "ops/parallel_for.h"
#include "serving/bundle.h"
#include "table/messages.h"
#include "tensorflow/core/framework/resource_var.h"

namespace ctrlab {
namespace {

using serving::Bundle;
using tensorflow::TensorBuffer;
using tensorflow::core::RefCountPtr;

REGISTER_OP("Ctrlab>ServingOpen")
    .Attr("bundle: string")
    .Attr("table_names: list(string)")
    .Attr("table_dims: list(int)")
    .Attr("table_rows: list(int)")
    .Attr("memory_rows: list(int)")
    .Attr("row_formats: list(string) = []")
    .Attr("dense_bytes: list(int)")
    .Input("path: string")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(
        "Loads the weights of an exported version (native/serving/weights_file.h), once in a process. A table of -1 rows takes "
        "any keys; of these, `memory_rows` above 0 are kept in memory. `row_formats` are those of kernels/lookup/row_format.h; "
        "none: all are float32.");

REGISTER_OP("Ctrlab>ServingTables")
    .Attr("bundle: string")
    .Attr("T: int >= 1")
    .Output("tables: T * resource")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      for (int t = 0; t < c->num_outputs(); ++t) c->set_output(t, c->Scalar());
      return absl::OkStatus();
    })
    .Doc("The handles of all tables: variables, and embedding variables.");

REGISTER_OP("Ctrlab>ServingDense")
    .Attr("bundle: string")
    .Attr("types: list(type) >= 1")
    .Attr("shapes: list(shape)")
    .Output("dense: types")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      std::vector<tensorflow::PartialTensorShape> shapes;
      TF_RETURN_IF_ERROR(c->GetAttr("shapes", &shapes));
      if (std::ssize(shapes) != c->num_outputs()) return InvalidArgument("Each dense tensor has a shape.");
      for (int d = 0; d < c->num_outputs(); ++d) {
        ShapeHandle shape;
        TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[d], &shape));
        c->set_output(d, shape);
      }
      return absl::OkStatus();
    })
    .Doc("All dense tensors, without a copy.");

// Memory of a bundle as a tensor's buffer.
class Held : public TensorBuffer {
 public:
  Held(void* data, size_t bytes, std::shared_ptr<const void> owner)
      : TensorBuffer(data), bytes_(bytes), owner_(std::move(owner)) {}

  size_t size() const override { return bytes_; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tensorflow::AllocationDescription*) const override {}

 private:
  const size_t bytes_;
  const std::shared_ptr<const void> owner_;
};

Tensor TensorOf(tensorflow::DataType type, const TensorShape& shape, void* data, std::shared_ptr<const void> owner) {
  const size_t bytes = shape.num_elements() * tensorflow::DataTypeSize(type);
  return Tensor(type, shape, RefCountPtr<TensorBuffer>(new Held(data, bytes, std::move(owner))));
}

// What a session has of the bundle: the graph's kernels may come and go.
class Session : public tensorflow::ResourceBase {
 public:
  explicit Session(std::shared_ptr<Bundle> bundle) : bundle_(std::move(bundle)) {}
  std::string DebugString() const override { return "the weights of an exported model"; }

 private:
  const std::shared_ptr<Bundle> bundle_;
};

class BundleOp : public StatusOp {
 public:
  explicit BundleOp(OpKernelConstruction* context) : StatusOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("bundle", &name_));
    bundle_ = Bundle::Named(name_);
  }

 protected:
  absl::Status MustBeOpen() const {
    if (bundle_->is_open()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "An exported model answers when its weights are loaded; they are not: run the SavedModel's initializer first.");
  }

  std::string name_;
  std::shared_ptr<Bundle> bundle_;
};

class ServingOpenOp : public BundleOp {
 public:
  explicit ServingOpenOp(OpKernelConstruction* context) : BundleOp(context) {
    std::vector<std::string> names;
    std::vector<int64_t> dims, rows, memory_rows;
    std::vector<RowFormat> formats;
    OP_REQUIRES_OK(context, context->GetAttr("table_names", &names));
    OP_REQUIRES_OK(context, context->GetAttr("table_dims", &dims));
    OP_REQUIRES_OK(context, context->GetAttr("table_rows", &rows));
    OP_REQUIRES_OK(context, context->GetAttr("memory_rows", &memory_rows));
    OP_REQUIRES_OK(context, context->GetAttr("dense_bytes", &shape_.dense_bytes));
    OP_REQUIRES_OK(context, ReadRowFormats(context, &formats));
    const size_t count = names.size();
    if (formats.empty()) formats.assign(count, RowFormat::kFloat32);
    OP_REQUIRES(context, dims.size() == count && rows.size() == count && memory_rows.size() == count && formats.size() == count,
                InvalidArgument("Each of the ", count, " tables has a dim, rows, rows in memory, and a format."));
    for (size_t t = 0; t < count; ++t) shape_.tables.push_back({names[t], dims[t], rows[t], memory_rows[t], formats[t]});
  }

 private:
  absl::Status Run(OpKernelContext* context) override {
    const Tensor& path = context->input(0);
    if (path.NumElements() != 1) {
      return InvalidArgument("The weights of a version have one path; received ", path.shape().DebugString(), ".");
    }
    const embedding::Status opened = bundle_->Open(shape_, path.flat<tensorflow::tstring>()(0), IntraOpPool(context));
    if (embedding::IsOutOfMemory(opened)) return absl::ResourceExhaustedError(opened.problem());
    if (!opened.ok()) return absl::FailedPreconditionError(opened.problem());
    Session* session;
    TF_RETURN_IF_ERROR(
        context->resource_manager()->LookupOrCreate<Session>("ctrlab.serving", name_, &session, [&](Session** made) {
          *made = new Session(bundle_);
          return absl::OkStatus();
        }));
    session->Unref();
    return absl::OkStatus();
  }

  serving::BundleShape shape_;
};

// Makes its outputs at the first call, and gives the same ones at all later calls.
class WeightsOp : public BundleOp {
 public:
  using BundleOp::BundleOp;

 protected:
  virtual absl::Status Make(OpKernelContext* context, std::vector<Tensor>* outputs) const = 0;

 private:
  absl::Status Run(OpKernelContext* context) override {
    TF_RETURN_IF_ERROR(MustBeOpen());
    {
      const std::lock_guard lock(mutex_);
      if (outputs_.empty()) {
        std::vector<Tensor> made;
        TF_RETURN_IF_ERROR(Make(context, &made));
        outputs_ = std::move(made);
      }
    }
    for (int i = 0; i < context->num_outputs(); ++i) context->set_output(i, outputs_[i]);
    return absl::OkStatus();
  }

  std::mutex mutex_;
  std::vector<Tensor> outputs_;
};

class ServingTablesOp : public WeightsOp {
 public:
  using WeightsOp::WeightsOp;

 private:
  absl::Status Make(OpKernelContext* context, std::vector<Tensor>* outputs) const override {
    const auto& tables = bundle_->shape().tables;
    if (std::ssize(tables) != context->num_outputs()) {
      return InvalidArgument("The bundle has ", tables.size(), " tables; the graph asks for ", context->num_outputs(), ".");
    }
    for (size_t t = 0; t < tables.size(); ++t) {
      const serving::TableShape& shape = tables[t];
      const serving::BundleTable& table = bundle_->table(t);
      Tensor& handle = outputs->emplace_back(tensorflow::DT_RESOURCE, TensorShape({}));
      const auto take = [&](auto* resource) {
        handle.scalar<tensorflow::ResourceHandle>()() =
            tensorflow::ResourceHandle::MakeRefCountingHandle(resource, context->device()->name());
      };
      if (table.growing) {
        take(new TableResource(shape.name, table.growing));
        continue;
      }
      auto* const variable = new tensorflow::Var(tensorflow::DT_FLOAT);
      *variable->tensor() =
          TensorOf(tensorflow::DT_FLOAT, TensorShape({shape.rows, shape.words()}), table.fixed->data<void>(), table.fixed);
      variable->is_initialized = true;
      take(variable);
    }
    return absl::OkStatus();
  }
};

class ServingDenseOp : public WeightsOp {
 public:
  explicit ServingDenseOp(OpKernelConstruction* context) : WeightsOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("types", &types_));
    OP_REQUIRES_OK(context, context->GetAttr("shapes", &shapes_));
    OP_REQUIRES(context, shapes_.size() == types_.size(), InvalidArgument("Each dense tensor has a shape."));
    for (const tensorflow::DataType type : types_) {
      OP_REQUIRES(context, tensorflow::DataTypeCanUseMemcpy(type),
                  InvalidArgument("A dense tensor is numbers; received ", tensorflow::DataTypeString(type), "."));
    }
  }

 private:
  absl::Status Make(OpKernelContext*, std::vector<Tensor>* outputs) const override {
    const std::vector<int64_t>& bytes = bundle_->shape().dense_bytes;
    if (bytes.size() != types_.size()) {
      return InvalidArgument("The bundle has ", bytes.size(), " dense tensors; the graph asks for ", types_.size(), ".");
    }
    for (size_t d = 0; d < types_.size(); ++d) {
      const int64_t wanted = shapes_[d].num_elements() * tensorflow::DataTypeSize(types_[d]);
      if (bytes[d] != wanted) {
        return InvalidArgument("Dense tensor ", d, " of the bundle has ", bytes[d], " bytes; the graph asks for ", wanted, ".");
      }
      outputs->push_back(TensorOf(types_[d], shapes_[d], bundle_->dense()->at(d), bundle_->dense()));
    }
    return absl::OkStatus();
  }

  std::vector<tensorflow::DataType> types_;
  std::vector<TensorShape> shapes_;
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>ServingOpen").Device(DEVICE_CPU), ServingOpenOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>ServingTables").Device(DEVICE_CPU), ServingTablesOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>ServingDense").Device(DEVICE_CPU), ServingDenseOp);

}  // namespace
}  // namespace ctrlab
