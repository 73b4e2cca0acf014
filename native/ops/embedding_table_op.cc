// The ops of embedding variables: handle, optimizer slots, eviction, statistics. Every input is checked here.

#include <cmath>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "ops/checks.h"
#include "ops/embedding_table.h"
#include "ops/parallel_for.h"
#include "store/scratch.h"

namespace ctrlab {
namespace {

using embedding::Table;

// `served_name`, not `shared_name`: tf.saved_model.load adds a different suffix to each shared_name, so a model that is loaded
// twice would have two tables.
REGISTER_OP("Ctrlab>EmbeddingTable")
    .Attr("table_name: string")
    .Attr("dim: int")
    .Attr("initializer: int")
    .Attr("seed: int")
    .Attr("admission: int")
    .Attr("threshold: int")
    .Attr("expected_keys: int")
    .Attr("storage_path: string")
    .Attr("memory_rows: int")
    .Attr("cache: {'lru', 'lfu'}")
    .Attr("compaction: {'async', 'sync'}")
    .Attr("keep: bool")
    .Attr("container: string = ''")
    .Attr("served_name: string = ''")
    .Input("numbers: double")
    .Output("handle: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(
        "A new, empty table; with a `storage_path`, rows beyond `memory_rows` sink into a store there. `numbers` are the "
        "initializer's a and b and the filter's false-positive rate. It lives as long as its handle; with `keep` as long as the "
        "kernel, which always answers with the same: so it outlives a session's call. With a `served_name` all kernels of the "
        "process that have it, and the `container`, answer with one table, which is served: see table/served.h.");

class EmbeddingTableOp : public StatusOp {
 public:
  explicit EmbeddingTableOp(OpKernelConstruction* context) : StatusOp(context) {
    int64_t initializer, seed, admission;
    std::string cache, compaction;
    OP_REQUIRES_OK(context, context->GetAttr("table_name", &name_));
    OP_REQUIRES_OK(context, context->GetAttr("dim", &options_.dim));
    OP_REQUIRES_OK(context, context->GetAttr("initializer", &initializer));
    OP_REQUIRES_OK(context, context->GetAttr("seed", &seed));
    OP_REQUIRES_OK(context, context->GetAttr("admission", &admission));
    OP_REQUIRES_OK(context, context->GetAttr("threshold", &options_.admission.threshold));
    OP_REQUIRES_OK(context, context->GetAttr("expected_keys", &options_.admission.expected_keys));
    OP_REQUIRES_OK(context, context->GetAttr("storage_path", &store_.path));
    OP_REQUIRES_OK(context, context->GetAttr("memory_rows", &memory_rows_));
    OP_REQUIRES_OK(context, context->GetAttr("cache", &cache));
    OP_REQUIRES_OK(context, context->GetAttr("compaction", &compaction));
    OP_REQUIRES_OK(context, context->GetAttr("keep", &keep_));
    OP_REQUIRES_OK(context, context->GetAttr("container", &place_.container));
    OP_REQUIRES_OK(context, context->GetAttr("served_name", &place_.name));
    cache_ = cache == "lru" ? embedding::Cache::kLru : embedding::Cache::kLfu;
    store_.compaction = compaction == "sync" ? embedding::Compaction::kSync : embedding::Compaction::kAsync;
    constexpr int64_t kLast = static_cast<int64_t>(embedding::InitialKind::kTruncatedNormal);
    OP_REQUIRES(context, initializer >= 0 && initializer <= kLast,
                InvalidArgument("An initializer is named by a number in [0, ", kLast, "]; received ", initializer, "."));
    options_.initializer.kind = static_cast<embedding::InitialKind>(initializer);
    options_.initializer.seed = seed;
    constexpr int64_t kLastAdmission = static_cast<int64_t>(embedding::AdmissionKind::kBloom);
    OP_REQUIRES(context, admission >= 0 && admission <= kLastAdmission,
                InvalidArgument("Admission is named by a number in [0, ", kLastAdmission, "]; received ", admission, "."));
    options_.admission.kind = static_cast<embedding::AdmissionKind>(admission);
  }

 private:
  absl::Status Run(OpKernelContext* context) override {
    TablePtr table;
    if (keep_) {
      const std::lock_guard lock(mutex_);
      if (!kept_) TF_RETURN_IF_ERROR(Make(context, &kept_));
      table = kept_.GetNewRef();
    } else {
      TF_RETURN_IF_ERROR(Make(context, &table));
    }
    return WriteHandle(context, table.release());
  }

  absl::Status Make(OpKernelContext* context, TablePtr* made) const {
    const Tensor& numbers = context->input(0);
    TF_RETURN_IF_ERROR(CheckShape("`numbers`", numbers, {3}));
    embedding::TableOptions options = options_;
    options.initializer.a = numbers.flat<double>()(0);
    options.initializer.b = numbers.flat<double>()(1);
    options.admission.false_positive_rate = numbers.flat<double>()(2);
    const auto make = [&](std::unique_ptr<Table>* table) { return MakeTable(options, table); };
    if (place_.name.empty()) {
      std::unique_ptr<Table> table;
      TF_RETURN_IF_ERROR(OfTable(name_, make(&table)));
      made->reset(new TableResource(name_, std::move(table)));
      return absl::OkStatus();
    }
    std::shared_ptr<embedding::ServedTable> served;
    bool is_new;
    TF_RETURN_IF_ERROR(OfTable(name_, embedding::ServedTable::FindOrMake(place_, 0, make, &served, &is_new)));
    if (served->table().dim() != options.dim) {
      return InvalidArgument("Embedding variable ", name_, " of ", options.dim, " numbers per row must not be served as ",
                             place_.name, " of container '", place_.container, "', which has ", served->table().dim(), ".");
    }
    made->reset(new TableResource(name_, std::move(served)));
    return absl::OkStatus();
  }

  embedding::Status MakeTable(const embedding::TableOptions& options, std::unique_ptr<Table>* table) const {
    if (embedding::Status bad = Table::Make(options, table); !bad.ok() || store_.path.empty()) return bad;
    return (*table)->SetTier({embedding::StoresIn(store_), memory_rows_, cache_});
  }

  std::string name_;
  embedding::TableOptions options_;
  embedding::StoreOptions store_;
  embedding::Cache cache_;
  int64_t memory_rows_;
  bool keep_;
  embedding::ServedName place_;
  std::mutex mutex_;
  TablePtr kept_;
};

REGISTER_OP("Ctrlab>EmbeddingSetSlots")
    .Attr("slot_names: list(string)")
    .Attr("initial: list(float)")
    .Input("handle: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Gives each row the slots of an optimizer. Slots of the names that are there already keep what they hold.");

class EmbeddingSetSlotsOp : public TableOp {
 public:
  explicit EmbeddingSetSlotsOp(OpKernelConstruction* context) : TableOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("slot_names", &names_));
    OP_REQUIRES_OK(context, context->GetAttr("initial", &initial_));
    OP_REQUIRES(
        context, names_.size() == initial_.size(),
        InvalidArgument("Each slot has a name and an initial value; received ", names_.size(), " and ", initial_.size(), "."));
  }

 private:
  absl::Status Run(OpKernelContext* context, TableResource& table) override {
    TF_RETURN_IF_ERROR(table.MayBeTrained());
    const std::lock_guard lock(table.slots_mutex);
    if (table.slot_names != names_) TF_RETURN_IF_ERROR(OfTable(table.name(), table.table().SetSlots(0, nullptr)));
    table.slot_names.clear();  // in case there is no memory for the new ones
    TF_RETURN_IF_ERROR(OfTable(table.name(), table.table().SetSlots(std::ssize(names_), initial_.data())));
    table.slot_names = names_;
    return absl::OkStatus();
  }

  std::vector<std::string> names_;
  std::vector<float> initial_;
};

REGISTER_OP("Ctrlab>EmbeddingOpen")
    .Input("handle: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Opens the storage, if the table has one; else the first step does.");

class EmbeddingOpenOp : public TableOp {
 public:
  using TableOp::TableOp;

 private:
  absl::Status Run(OpKernelContext* context, TableResource& table) override {
    return OfTable(table.name(), table.table().Open());
  }
};

REGISTER_OP("Ctrlab>EmbeddingClose")
    .Input("handle: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Frees the rows and removes the storage. All other ops refuse the table from then on.");

class EmbeddingCloseOp : public TableOp {
 public:
  using TableOp::TableOp;

 private:
  absl::Status Run(OpKernelContext* context, TableResource& table) override {
    TF_RETURN_IF_ERROR(table.MayBeTrained());
    std::unique_ptr<Table> nothing;
    TF_RETURN_IF_ERROR(OfTable(table.name(), table.table().Stage(&nothing)));
    table.Close();
    return OfTable(table.name(), table.table().Adopt(nothing.get()));
  }
};

REGISTER_OP("Ctrlab>EmbeddingEvict")
    .Attr("rule: {'steps', 'norm'}")
    .Input("handle: resource")
    .Input("step: int64")
    .Input("limit: double")
    .Output("removed: int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(
        "Removes what no step has touched for more than `limit` steps, or rows whose norm is below it; how many rows went. A "
        "step below 0 means the last one.");

class EmbeddingEvictOp : public TableOp {
 public:
  explicit EmbeddingEvictOp(OpKernelConstruction* context) : TableOp(context) {
    std::string rule;
    OP_REQUIRES_OK(context, context->GetAttr("rule", &rule));
    by_step_ = rule == "steps";
  }

 private:
  absl::Status Run(OpKernelContext* context, TableResource& table) override {
    TF_RETURN_IF_ERROR(table.MayBeTrained());
    const int64_t* step;
    const Tensor* limit;
    TF_RETURN_IF_ERROR(ReadNumbers(context, "step", 1, &step));
    TF_RETURN_IF_ERROR(context->input("limit", &limit));
    const double most = limit->NumElements() == 1 ? limit->flat<double>()(0) : -1;
    if (!(most >= 0 && (!by_step_ || most < 0x1p53))) {
      return InvalidArgument("The limit of an eviction must be one number of 0 or more, below 2^53 for steps; received [",
                             limit->SummarizeValue(3), "].");
    }
    Tensor* removed;
    TF_RETURN_IF_ERROR(context->allocate_output(0, TensorShape({}), &removed));
    const ParallelFor pool = IntraOpPool(context);
    int64_t* count = &removed->scalar<int64_t>()();
    const int64_t now = *step < 0 ? table.last_step() : *step;
    return OfTable(table.name(), by_step_ ? table.table().EvictSteps(now, static_cast<int64_t>(most), pool, count)
                                          : table.table().EvictNorms(most, pool, count));
  }

  bool by_step_;
};

REGISTER_OP("Ctrlab>EmbeddingStats")
    .Input("handle: resource")
    .Output("stats: int64")
    .Output("slot_names: string")
    .Output("problem: string")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(10));
      c->set_output(1, c->Vector(c->UnknownDim()));
      c->set_output(2, c->Scalar());
      return absl::OkStatus();
    })
    .Doc(
        "Rows, candidates, rows below the memory, bytes, most bytes ever, hits, misses, hits below the memory, keys in the "
        "change log, bytes of the filter; the names of the slots; why rows could not sink in the background the last time.");

class EmbeddingStatsOp : public TableOp {
 public:
  using TableOp::TableOp;

 private:
  absl::Status Run(OpKernelContext* context, TableResource& table) override {
    Tensor* out;
    TF_RETURN_IF_ERROR(context->allocate_output(0, TensorShape({10}), &out));
    const embedding::TableStats s = table.table().Stats();
    const int64_t stats[] = {s.rows, s.candidates, s.rows_below, s.bytes,  s.peak_bytes,
                             s.hits, s.misses,     s.hits_below, s.logged, table.table().filter_bytes()};
    std::copy(std::begin(stats), std::end(stats), out->flat<int64_t>().data());
    Tensor* problem;
    TF_RETURN_IF_ERROR(context->allocate_output(2, TensorShape({}), &problem));
    problem->scalar<tensorflow::tstring>()() = s.problem;
    const std::shared_lock lock(table.slots_mutex);
    Tensor* names;
    TF_RETURN_IF_ERROR(context->allocate_output(1, TensorShape({std::ssize(table.slot_names)}), &names));
    std::copy(table.slot_names.begin(), table.slot_names.end(), names->flat<tensorflow::tstring>().data());
    return absl::OkStatus();
  }
};

REGISTER_OP("Ctrlab>EmbeddingPrefetch")
    .Input("handle: resource")
    .Input("keys: int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Brings the rows of these keys into the memory.");

class EmbeddingPrefetchOp : public TableOp {
 public:
  using TableOp::TableOp;

 private:
  absl::Status Run(OpKernelContext* context, TableResource& table) override {
    const Tensor& keys = context->input(1);
    return OfTable(table.name(), table.table().Prefetch(keys.flat<int64_t>().data(), keys.NumElements(), IntraOpPool(context)));
  }
};

REGISTER_OP("Ctrlab>EmbeddingKeysBelow")
    .Input("handle: resource")
    .Output("keys: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(c->UnknownDim()));
      return absl::OkStatus();
    })
    .Doc("The keys whose rows are below the memory.");

class EmbeddingKeysBelowOp : public TableOp {
 public:
  using TableOp::TableOp;

 private:
  absl::Status Run(OpKernelContext* context, TableResource& table) override {
    std::vector<int64_t> below;
    TF_RETURN_IF_ERROR(OfTable(table.name(), table.table().KeysBelow(&below)));
    Tensor* keys;
    TF_RETURN_IF_ERROR(context->allocate_output(0, TensorShape({std::ssize(below)}), &keys));
    std::copy(below.begin(), below.end(), keys->flat<int64_t>().data());
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingPrefetch").Device(DEVICE_CPU), EmbeddingPrefetchOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingKeysBelow").Device(DEVICE_CPU), EmbeddingKeysBelowOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingTable").Device(DEVICE_CPU), EmbeddingTableOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingOpen").Device(DEVICE_CPU), EmbeddingOpenOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingClose").Device(DEVICE_CPU), EmbeddingCloseOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingSetSlots").Device(DEVICE_CPU), EmbeddingSetSlotsOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingEvict").Device(DEVICE_CPU), EmbeddingEvictOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>EmbeddingStats").Device(DEVICE_CPU), EmbeddingStatsOp);

}  // namespace
}  // namespace ctrlab
