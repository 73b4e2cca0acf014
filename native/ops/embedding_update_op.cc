// Ctrlab>EmbeddingUpdate: one optimizer step on the rows of all embedding variables of a model. Everything is checked before
// anything changes. Ctrlab>EmbeddingNorms: the norms by which that step would clip, for tables that are sharded over workers.

#include <algorithm>
#include <bit>
#include <mutex>
#include <string>
#include <vector>

#include "ops/checks.h"
#include "ops/embedding_table.h"
#include "ops/parallel_for.h"
#include "ops/step_rule.h"

namespace ctrlab {
namespace {

// Tests the bits, so that the compiler can vectorize the loop.
bool AllFinite(const float* x, int64_t n) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t bad = 0;
  for (int64_t i = 0; i < n; ++i) bad |= (std::bit_cast<uint32_t>(x[i]) & kExponent) == kExponent;
  return !bad;
}

REGISTER_OP("Ctrlab>EmbeddingUpdate")
    .Attr("T: int >= 1")
    .Attr("kind: {'sgd', 'adagrad', 'ftrl', 'adam_async'}")
    .Attr("slot_names: list(string)")
    .Input("tables: T * resource")
    .Input("keys: T * int64")
    .Input("counts: T * int64")
    .Input("gradients: T * float")
    .Input("learning_rate: float")
    .Input("step: int64")
    .Input("numbers: double")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(
        "Counts keys, makes rows for those that have come often enough, steps all that have a row. Keys ascend, each once. "
        "`numbers` are beta1, beta2, epsilon, l1, l2, clip_norm.");

REGISTER_OP("Ctrlab>EmbeddingNorms")
    .Attr("T: int >= 1")
    .Attr("kind: {'sgd', 'adagrad', 'ftrl', 'adam_async'}")
    .Attr("slot_names: list(string)")
    .Input("tables: T * resource")
    .Input("keys: T * int64")
    .Input("counts: T * int64")
    .Input("gradients: T * float")
    .Input("step: int64")
    .Output("squares: double")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      int tables;
      TF_RETURN_IF_ERROR(c->GetAttr("T", &tables));
      c->set_output(0, c->Vector(tables));
      return absl::OkStatus();
    })
    .Doc(
        "For each table the sum of squares of its gradient over the keys that have a row after Ctrlab>EmbeddingUpdate of these "
        "arguments. Nothing changes, except which rows are in memory.");

// Reads and checks the arguments that an update and its norms share.
class TableStepsOp : public StatusOp {
 public:
  explicit TableStepsOp(OpKernelConstruction* context) : StatusOp(context) {
    OP_REQUIRES_OK(context, ReadKind(context, &kind_));
    OP_REQUIRES_OK(context, context->GetAttr("slot_names", &slot_names_));
    OP_REQUIRES(
        context, std::ssize(slot_names_) == kSlotsOf[kind_],
        InvalidArgument("Kind ", kStepKinds[kind_], " has ", kSlotsOf[kind_], " slots; received ", slot_names_.size(), "."));
  }

 protected:
  // Those of one call. While it exists, no table changes its slots.
  struct Steps {
    std::vector<TablePtr> tables;
    std::vector<std::shared_lock<std::shared_mutex>> locks;
    std::vector<embedding::TableStep> steps;
  };

  absl::Status Read(OpKernelContext* context, Steps* read) const {
    OpInputList keys, counts, gradients;
    TF_RETURN_IF_ERROR(context->input_list("keys", &keys));
    TF_RETURN_IF_ERROR(context->input_list("counts", &counts));
    TF_RETURN_IF_ERROR(context->input_list("gradients", &gradients));
    for (const Tensor& gradient : gradients) TF_RETURN_IF_ERROR(CheckMatrix("A gradient", gradient));
    TF_RETURN_IF_ERROR(FindTables(context, [&](int t) { return gradients[t].dim_size(1); }, &read->tables));
    TF_RETURN_IF_ERROR(LockSlots(read->tables, &read->locks));
    for (size_t t = 0; t < read->tables.size(); ++t) {
      TF_RETURN_IF_ERROR(Check(*read->tables[t], keys[t], counts[t], gradients[t], IntraOpPool(context)));
      read->steps.push_back({&read->tables[t]->table(),
                             {keys[t].flat<int64_t>().data(), counts[t].flat<int64_t>().data(), gradients[t].flat<float>().data(),
                              keys[t].NumElements()}});
    }
    return absl::OkStatus();
  }

  StepKind kind_;

 private:
  // Locked in the order of their addresses, as every caller does.
  absl::Status LockSlots(const std::vector<TablePtr>& tables, std::vector<std::shared_lock<std::shared_mutex>>* locks) const {
    std::vector<TableResource*> order;
    for (const TablePtr& table : tables) order.push_back(table.get());
    std::sort(order.begin(), order.end());
    if (std::adjacent_find(order.begin(), order.end()) != order.end()) {
      return InvalidArgument("Each embedding variable must be given once.");
    }
    for (TableResource* table : order) {
      TF_RETURN_IF_ERROR(table->MayBeTrained());
      locks->emplace_back(table->slots_mutex);
      if (table->slot_names == slot_names_) continue;
      return InvalidArgument("An embedding variable has one optimizer; ", table->name(), " has the slots [",
                             absl::StrJoin(table->slot_names, ", "), "], and this one keeps [", absl::StrJoin(slot_names_, ", "),
                             "]: build the optimizer that shall go on.");
    }
    return absl::OkStatus();
  }

  static absl::Status Check(const TableResource& table, const Tensor& keys, const Tensor& counts, const Tensor& gradient,
                            const ParallelFor& pool) {
    const int64_t n = gradient.dim_size(0), dim = gradient.dim_size(1);
    TF_RETURN_IF_ERROR(CheckShape(absl::StrCat("The keys of ", table.name(), ", one for each row of its gradient,"), keys, {n}));
    TF_RETURN_IF_ERROR(CheckShape(absl::StrCat("The counts of ", table.name()), counts, {n}));
    const float* g = gradient.flat<float>().data();
    std::vector<char> bad(n);
    pool(n, dim, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) bad[i] = !AllFinite(g + i * dim, dim);
    });
    const int64_t first = std::find(bad.begin(), bad.end(), 1) - bad.begin();
    if (first == n) return absl::OkStatus();
    return InvalidArgument("Gradients must be finite; embedding variable ", table.name(), " received nan or inf for key ",
                           keys.flat<int64_t>()(first), ". Nothing was changed.");
  }

  std::vector<std::string> slot_names_;
};

class EmbeddingUpdateOp : public TableStepsOp {
 public:
  using TableStepsOp::TableStepsOp;

 private:
  absl::Status Run(OpKernelContext* context) override {
    StepRule rule;
    TF_RETURN_IF_ERROR(ReadRule(context, kind_, &rule));
    Steps read;
    TF_RETURN_IF_ERROR(Read(context, &read));
    int64_t which = 0;
    const embedding::Status status = embedding::Update(read.steps, rule, IntraOpPool(context), &which);
    TF_RETURN_IF_ERROR(OfTable(read.tables[which]->name(), status));
    for (const TablePtr& table : read.tables) table->SawStep(static_cast<int64_t>(rule.step));
    return absl::OkStatus();
  }
};

class EmbeddingNormsOp : public TableStepsOp {
 public:
  using TableStepsOp::TableStepsOp;

 private:
  absl::Status Run(OpKernelContext* context) override {
    const int64_t* step;
    TF_RETURN_IF_ERROR(ReadNumbers(context, "step", 1, &step));
    StepRule rule{};
    rule.kind = kind_, rule.step = static_cast<double>(*step);
    Steps read;
    TF_RETURN_IF_ERROR(Read(context, &read));
    Tensor* squares;
    TF_RETURN_IF_ERROR(context->allocate_output(0, TensorShape({std::ssize(read.tables)}), &squares));
    int64_t which = 0;
    const embedding::Status status =
        embedding::Norms(read.steps, rule, IntraOpPool(context), squares->flat<double>().data(), &which);
    return OfTable(read.tables[which]->name(), status);
  }
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingUpdate").Device(DEVICE_CPU), EmbeddingUpdateOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingNorms").Device(DEVICE_CPU), EmbeddingNormsOp);

}  // namespace
}  // namespace ctrlab
