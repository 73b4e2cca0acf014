// Cuts (a table's changes since a consumer's version) and stages (a state that arrives in parts), as resources.

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ops/checks.h"
#include "ops/consumer.h"
#include "ops/embedding_state.h"
#include "ops/embedding_table.h"
#include "ops/parallel_for.h"
#include "table/cut.h"

namespace ctrlab {
namespace {

// Parts are read by one thread at a time.
class CutResource : public tensorflow::ResourceBase {
 public:
  static constexpr char kKind[] = "a cut";

  CutResource(std::string name, std::unique_ptr<embedding::Cut> cut) : name_(std::move(name)), cut_(std::move(cut)) {}

  std::string DebugString() const override { return absl::StrCat("a cut of embedding variable ", name_); }
  const std::string& name() const { return name_; }
  embedding::Cut& cut() const { return *cut_; }

  std::mutex mutex;

 private:
  const std::string name_;
  const std::unique_ptr<embedding::Cut> cut_;
};

REGISTER_OP("Ctrlab>EmbeddingCut")
    .Input("handle: resource")
    .Input("consumer: string")
    .Output("cut: resource")
    .Output("numbers: int64")
    .Output("slot_names: string")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Scalar());
      c->set_output(1, c->Vector(6));
      c->set_output(2, c->Vector(c->UnknownDim()));
      return absl::OkStatus();
    })
    .Doc(
        "What changed of a table since the version that a consumer confirmed, at this moment. `numbers`: that version, or -1 "
        "where this is everything; the version of this cut; rows, candidates, bytes of the filter, removed keys.");

class EmbeddingCutOp : public TableOp {
 public:
  using TableOp::TableOp;

 private:
  absl::Status Run(OpKernelContext* context, TableResource& table) override {
    std::string consumer;
    TF_RETURN_IF_ERROR(ReadConsumer(context, &consumer));
    const std::shared_lock lock(table.slots_mutex);
    std::unique_ptr<embedding::Cut> cut;
    TF_RETURN_IF_ERROR(OfTable(table.name(), table.table().CutFor(consumer, IntraOpPool(context), &cut)));
    const embedding::StateSizes sizes = cut->sizes();
    TF_RETURN_IF_ERROR(WriteNumbers(
        context, 1, {cut->since(), cut->version(), sizes.rows, sizes.candidates, sizes.filter_bytes, sizes.removed}));
    TF_RETURN_IF_ERROR(WriteNames(context, 2, table.slot_names));
    return WriteHandle(context, new CutResource(table.name(), std::move(cut)));
  }
};

REGISTER_OP("Ctrlab>EmbeddingCutPart")
    .Input("cut: resource")
    .Input("rows: int64")
    .CTRLAB_STATE(Output)
    .Output("done: bool")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      TF_RETURN_IF_ERROR(StateShapes(c));
      c->set_output(kNames, c->Scalar());
      return absl::OkStatus();
    })
    .Doc("The next part of a cut, of so many rows and candidates at most; whether it is the last.");

class EmbeddingCutPartOp : public ResourceOp<CutResource> {
 public:
  using ResourceOp::ResourceOp;

 private:
  absl::Status Run(OpKernelContext* context, CutResource& resource) override {
    const int64_t* rows;
    TF_RETURN_IF_ERROR(ReadNumbers(context, "rows", 1, &rows));
    const std::lock_guard lock(resource.mutex);
    embedding::Cut& cut = resource.cut();
    StateOutputs outputs(context, cut.dim(), cut.slots());
    TF_RETURN_IF_ERROR(outputs.Checked(resource.name(), cut.Next(*rows, outputs.Room())));
    Tensor* done;
    TF_RETURN_IF_ERROR(context->allocate_output(kNames, TensorShape({}), &done));
    done->scalar<bool>()() = cut.done();
    return absl::OkStatus();
  }
};

REGISTER_OP("Ctrlab>EmbeddingStage")
    .Input("handle: resource")
    .Output("stage: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc("An empty table like this one, for a state that comes in parts.");

class EmbeddingStageOp : public TableOp {
 public:
  using TableOp::TableOp;

 private:
  absl::Status Run(OpKernelContext* context, TableResource& table) override {
    const std::shared_lock lock(table.slots_mutex);
    std::unique_ptr<embedding::Table> stage;
    TF_RETURN_IF_ERROR(OfTable(table.name(), table.table().Stage(&stage)));
    auto* made = new TableResource(table.name(), std::move(stage));
    made->slot_names = table.slot_names;
    return WriteHandle(context, made);
  }
};

REGISTER_OP("Ctrlab>EmbeddingAdopt")
    .Input("handle: resource")
    .Input("stage: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Replaces the content of a table by that of its stage, at once.");

class EmbeddingAdoptOp : public TableOp {
 public:
  using TableOp::TableOp;

 private:
  absl::Status Run(OpKernelContext* context, TableResource& table) override {
    const Tensor* handle;
    TablePtr stage;
    TF_RETURN_IF_ERROR(context->input("stage", &handle));
    TF_RETURN_IF_ERROR(FindResource(context, *handle, &stage));
    TF_RETURN_IF_ERROR(table.MayBeTrained());
    if (stage.get() == &table) return InvalidArgument("Embedding variable ", table.name(), " can't adopt itself.");
    const std::scoped_lock locks(table.slots_mutex, stage->slots_mutex);
    if (!table.slot_names.empty() && table.slot_names != stage->slot_names) {
      return InvalidArgument("Embedding variable ", table.name(), " has the slots [", absl::StrJoin(table.slot_names, ", "),
                             "]; the stage was made for [", absl::StrJoin(stage->slot_names, ", "), "]: stage the state anew.");
    }
    TF_RETURN_IF_ERROR(OfTable(table.name(), table.table().Adopt(&stage->table())));
    table.slot_names.swap(stage->slot_names);
    table.SetStep(stage->last_step());
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingCut").Device(DEVICE_CPU), EmbeddingCutOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingCutPart").Device(DEVICE_CPU), EmbeddingCutPartOp);
CTRLAB_CONSUMER_OPS("Ctrlab>Embedding", "handle", TableResource);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingStage").Device(DEVICE_CPU), EmbeddingStageOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingAdopt").Device(DEVICE_CPU), EmbeddingAdoptOp);

}  // namespace
}  // namespace ctrlab
