// Ctrlab>EmbeddingExport and Ctrlab>EmbeddingImport: a table's content as tensors, and back. Every input is checked here.

#include <mutex>
#include <string>
#include <vector>

#include "ops/checks.h"
#include "ops/embedding_state.h"
#include "ops/embedding_table.h"
#include "ops/parallel_for.h"

namespace ctrlab {
namespace {

using embedding::StateSizes;

absl::Status ReadShard(OpKernelContext* context, embedding::Shard* shard) {
  const int64_t* numbers;
  TF_RETURN_IF_ERROR(ReadNumbers(context, "shard", 2, &numbers));
  if (numbers[1] < 1 || numbers[0] < 0 || numbers[0] >= numbers[1]) {
    return InvalidArgument("A shard is one of a number of shards, counted from 0; received ", numbers[0], " of ", numbers[1],
                           ".");
  }
  *shard = {static_cast<uint64_t>(numbers[0]), static_cast<uint64_t>(numbers[1])};
  return absl::OkStatus();
}

REGISTER_OP("Ctrlab>EmbeddingExport")
    .Input("handle: resource")
    .Input("shard: int64")
    .CTRLAB_STATE(Output)
    .Output("slot_names: string")
    .SetIsStateful()
    .SetShapeFn(StateShapes)
    .Doc("Everything a table holds of a shard's keys, at one moment.");

class EmbeddingExportOp : public TableOp {
 public:
  using TableOp::TableOp;

 private:
  absl::Status Run(OpKernelContext* context, TableResource& table) override {
    embedding::Shard shard;
    TF_RETURN_IF_ERROR(ReadShard(context, &shard));
    const std::shared_lock lock(table.slots_mutex);
    StateOutputs outputs(context, table.table().dim(), std::ssize(table.slot_names));
    TF_RETURN_IF_ERROR(outputs.Checked(table.name(), table.table().Export(shard, outputs.Room(), IntraOpPool(context))));
    return WriteNames(context, kNames, table.slot_names);
  }
};

REGISTER_OP("Ctrlab>EmbeddingImport")
    .Attr("kind: {'all', 'more', 'changes'}")
    .Input("handle: resource")
    .Input("shard: int64")
    .CTRLAB_STATE(Input)
    .Input("slot_names: string")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Takes what comes of a shard's keys: in place of all that the table holds; besides it; or as changes of it.");

class EmbeddingImportOp : public TableOp {
 public:
  explicit EmbeddingImportOp(OpKernelConstruction* context) : TableOp(context) {
    std::string kind;
    OP_REQUIRES_OK(context, context->GetAttr("kind", &kind));
    kind_ = kind == "all"    ? embedding::ImportKind::kAll
            : kind == "more" ? embedding::ImportKind::kMore
                             : embedding::ImportKind::kChanges;
  }

 private:
  absl::Status Run(OpKernelContext* context, TableResource& table) override {
    embedding::Shard shard;
    TF_RETURN_IF_ERROR(ReadShard(context, &shard));
    const auto part = [&](Part which) -> const Tensor& { return context->input(2 + which); };
    TF_RETURN_IF_ERROR(CheckShapes(table.name(), table.table().dim(), part));

    if (table.served()) return Serve(context, table, part);

    std::vector<std::string> names;
    for (int64_t s = 0; s < part(kNames).NumElements(); ++s) names.push_back(part(kNames).flat<tensorflow::tstring>()(s));
    const std::lock_guard lock(table.slots_mutex);
    if (!names.empty() && !table.slot_names.empty() && names != table.slot_names) {
      return InvalidArgument("Embedding variable ", table.name(), " has an optimizer with the slots [",
                             absl::StrJoin(table.slot_names, ", "), "]; the state is of one with [", absl::StrJoin(names, ", "),
                             "].");
    }
    const StateSizes sizes = {part(kKeys).NumElements(), part(kCandidateKeys).NumElements(), part(kFilter).NumElements(),
                              part(kRemoved).NumElements()};
    const auto numbers = [&](Part which) { return part(which).flat<int64_t>().data(); };
    embedding::StateIn in;
    in.keys = numbers(kKeys);
    in.values = part(kValues).flat<float>().data();
    for (size_t s = 0; s < names.size(); ++s) in.slots[s] = part(kSlots).flat<float>().data() + s * part(kValues).NumElements();
    in.frequencies = numbers(kFrequencies);
    in.steps = numbers(kSteps);
    in.candidate_keys = numbers(kCandidateKeys);
    in.candidate_counts = numbers(kCandidateCounts);
    in.candidate_steps = numbers(kCandidateSteps);
    in.filter = part(kFilter).flat<uint8_t>().data();
    in.removed = numbers(kRemoved);
    const embedding::Status status = table.table().Import(kind_, shard, sizes, std::ssize(names), in, IntraOpPool(context));
    TF_RETURN_IF_ERROR(OfTable(table.name(), status));
    if (table.slot_names.empty()) table.slot_names = names;
    if (kind_ == embedding::ImportKind::kAll) table.SetStep(0);
    for (int64_t i = 0; i < sizes.rows; ++i) table.SawStep(in.steps[i]);
    for (int64_t i = 0; i < sizes.candidates; ++i) table.SawStep(in.candidate_steps[i]);
    return absl::OkStatus();
  }

  // A served table has keys and values only, and takes them from the first session that loads the model.
  template <class PartOf>
  absl::Status Serve(OpKernelContext* context, const TableResource& table, const PartOf& part) const {
    int64_t others = 0;
    for (const Part which : {kCandidateKeys, kFilter, kRemoved, kNames}) others += part(which).NumElements();
    if (kind_ != embedding::ImportKind::kAll || others > 0) return table.MayBeTrained();
    const embedding::ServedRows rows = {part(kKeys).template flat<int64_t>().data(), part(kValues).template flat<float>().data(),
                                        part(kKeys).NumElements()};
    return OfTable(table.name(), table.served()->LoadOnce(rows, IntraOpPool(context)));
  }

  template <class PartOf>
  static absl::Status CheckShapes(const std::string& name, int64_t dim, const PartOf& part) {
    const int64_t rows = part(kKeys).NumElements(), candidates = part(kCandidateKeys).NumElements(),
                  slots = part(kNames).NumElements();
    const auto check = [&](Part which, const char* what, std::initializer_list<int64_t> sizes) {
      return CheckShape(absl::StrCat("The ", what, " of embedding variable ", name), part(which), sizes);
    };
    if (slots > 2) return InvalidArgument("An optimizer has at most 2 slots; the state for ", name, " has ", slots, ".");
    TF_RETURN_IF_ERROR(check(kKeys, "keys", {rows}));
    TF_RETURN_IF_ERROR(check(kValues, "values", {rows, dim}));
    TF_RETURN_IF_ERROR(check(kSlots, "slots", {slots, rows, dim}));
    TF_RETURN_IF_ERROR(check(kFrequencies, "frequencies", {rows}));
    TF_RETURN_IF_ERROR(check(kSteps, "steps", {rows}));
    TF_RETURN_IF_ERROR(check(kCandidateKeys, "candidates' keys", {candidates}));
    TF_RETURN_IF_ERROR(check(kCandidateCounts, "candidates' counts", {candidates}));
    TF_RETURN_IF_ERROR(check(kCandidateSteps, "candidates' steps", {candidates}));
    TF_RETURN_IF_ERROR(check(kFilter, "filter", {part(kFilter).NumElements()}));
    TF_RETURN_IF_ERROR(check(kRemoved, "removed keys", {part(kRemoved).NumElements()}));
    return check(kNames, "slots' names", {slots});
  }

  embedding::ImportKind kind_;
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingExport").Device(DEVICE_CPU), EmbeddingExportOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingImport").Device(DEVICE_CPU), EmbeddingImportOp);

}  // namespace
}  // namespace ctrlab
