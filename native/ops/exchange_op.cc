// Ctrlab>AskedKeys and Ctrlab>KeysByTable: what a worker asks of the owners of rows, and what it is asked for.

#include <vector>

#include "kernels/exchange/exchange.h"
#include "kernels/registry.h"
#include "ops/checks.h"
#include "ops/lookup_plan.h"
#include "ops/op.h"
#include "ops/parallel_for.h"

namespace ctrlab {
namespace {

CTRLAB_KERNEL(asked_keys);

REGISTER_OP("Ctrlab>AskedKeys")
    .Attr("C: int >= 1")
    .Attr("T: int >= 1")
    .Attr("workers: int >= 1")
    .Attr("table_of: list(int)")
    .Attr("grows: bool")
    .Input("ids: C * int64")
    .Output("keys: int64")
    .Output("times: int64")
    .Output("counts: int32")
    .Output("places: C * int64")
    .SetShapeFn([](InferenceContext* c) {
      int64_t workers, tables;
      TF_RETURN_IF_ERROR(c->GetAttr("workers", &workers));
      TF_RETURN_IF_ERROR(c->GetAttr("T", &tables));
      const DimensionHandle distinct = c->UnknownDim();
      std::vector<ShapeHandle> ids;
      TF_RETURN_IF_ERROR(c->input("ids", &ids));
      for (ShapeHandle& each : ids) TF_RETURN_IF_ERROR(c->WithRank(each, 1, &each));
      c->set_output(0, c->Vector(distinct));
      c->set_output(1, c->Vector(distinct));
      c->set_output(2, c->Matrix(workers, tables));
      return c->set_output("places", ids);
    })
    .Doc(
        "The distinct keys of C columns of T tables by owner and table, how many ids have each, how many keys of a table each "
        "owner is asked for, and each id's place among the keys: see kernels/exchange/exchange.h.");

REGISTER_OP("Ctrlab>KeysByTable")
    .Attr("T: int >= 1")
    .Input("came: int64")
    .Input("counts: int32")
    .Output("keys: T * int64")
    .Output("times: T * int64")
    .Output("splits: T * int64")
    .Output("slots: int64")
    .SetShapeFn([](InferenceContext* c) {
      int64_t tables;
      TF_RETURN_IF_ERROR(c->GetAttr("T", &tables));
      ShapeHandle rank;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 3, &rank));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &rank));
      std::vector<ShapeHandle> keys;
      for (int64_t t = 0; t < tables; ++t) keys.push_back(c->Vector(c->UnknownDim()));
      TF_RETURN_IF_ERROR(c->set_output("keys", keys));
      TF_RETURN_IF_ERROR(c->set_output("times", keys));
      TF_RETURN_IF_ERROR(c->set_output("splits", std::vector<ShapeHandle>(tables, c->Vector(2))));
      return c->set_output("slots", {c->Matrix(c->UnknownDim(), 1)});
    })
    .Doc(
        "What W workers ask for, came [W, size, 1 (a key) or 2 (and its times)], of which counts [W, T] says how many are there: "
        "the keys of each table, worker by worker, with their times, 1 if none came; the splits [0, n] of each; and the slots "
        "[r, 1] among W * size from which all came, table by table.");

class AskedKeysOp : public StatusOp {
 public:
  explicit AskedKeysOp(OpKernelConstruction* context) : StatusOp(context) {
    int columns;
    OP_REQUIRES_OK(context, context->GetAttr("C", &columns));
    OP_REQUIRES_OK(context, context->GetAttr("T", &tables_));
    OP_REQUIRES_OK(context, context->GetAttr("workers", &workers_));
    OP_REQUIRES_OK(context, context->GetAttr("table_of", &table_of_));
    OP_REQUIRES_OK(context, context->GetAttr("grows", &grows_));
    OP_REQUIRES(context, std::ssize(table_of_) == columns,
                InvalidArgument("There must be one table a column; received ", table_of_.size(), " for ", columns, "."));
    for (const int64_t table : table_of_) {
      OP_REQUIRES(context, 0 <= table && table < tables_,
                  InvalidArgument("A column must name one of ", tables_, " tables; received ", table, "."));
    }
    OP_REQUIRES(context, workers_ <= kMost / tables_,
                InvalidArgument("Workers times tables must be below 2^31; received ", workers_, " and ", tables_, "."));
  }

 private:
  absl::Status Run(OpKernelContext* context) override {
    OpInputList ids;
    OpOutputList places;
    TF_RETURN_IF_ERROR(context->input_list("ids", &ids));
    TF_RETURN_IF_ERROR(context->output_list("places", &places));
    std::vector<AskedColumn> columns;
    int64_t total = 0;
    for (int64_t t = 0; t < tables_; ++t) {  // a table's columns lie one after the other
      for (int c = 0; c < ids.size(); ++c) {
        if (table_of_[c] != t) continue;
        if (!TensorShapeUtils::IsVector(ids[c].shape())) {
          return InvalidArgument("The ids of column ", c, " must be a vector; received ", ids[c].shape().DebugString(), ".");
        }
        const int64_t count = ids[c].NumElements();
        const int64_t* const of = ids[c].flat<int64_t>().data();
        if (!grows_) TF_RETURN_IF_ERROR(CheckIds(absl::StrCat("column ", c), of, nullptr, count, kMost));
        Tensor* place;
        TF_RETURN_IF_ERROR(places.allocate(c, TensorShape({count}), &place));
        columns.push_back({of, count, t, place->flat<int64_t>().data()});
        total += count;
      }
    }
    if (total > kMost) return InvalidArgument("All columns together must have less than 2^31 ids; received ", total, ".");

    Tensor keys, times;
    Tensor* counts;
    TF_RETURN_IF_ERROR(context->allocate_temp(tensorflow::DT_INT64, TensorShape({total}), &keys));
    TF_RETURN_IF_ERROR(context->allocate_temp(tensorflow::DT_INT64, TensorShape({total}), &times));
    TF_RETURN_IF_ERROR(context->allocate_output(2, TensorShape({workers_, tables_}), &counts));
    AskedKeys asked = {keys.flat<int64_t>().data(), times.flat<int64_t>().data(), counts->flat<int32_t>().data(), 0};
    const ParallelFor pool = IntraOpPool(context);
    asked_keys_kernel(columns.data(), std::ssize(columns), tables_, workers_, grows_, &asked, &pool);
    if (asked.count < 0 || asked.count > total) {  // a swapped-in kernel may return anything
      return absl::InternalError("There must not be more distinct keys than ids.");
    }
    context->set_output(0, keys.Slice(0, asked.count));
    context->set_output(1, times.Slice(0, asked.count));
    return absl::OkStatus();
  }

  int64_t tables_, workers_;
  std::vector<int64_t> table_of_;
  bool grows_;
};

class KeysByTableOp : public StatusOp {
 public:
  explicit KeysByTableOp(OpKernelConstruction* context) : StatusOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("T", &tables_));
  }

 private:
  absl::Status Run(OpKernelContext* context) override {
    const Tensor &came = context->input(0), &counts = context->input(1);
    if (came.dims() != 3 || came.dim_size(2) < 1 || came.dim_size(2) > 2) {
      return InvalidArgument("`came` must be [workers, size, 1 or 2]; received ", came.shape().DebugString(), ".");
    }
    const int64_t workers = came.dim_size(0), size = came.dim_size(1), width = came.dim_size(2);
    TF_RETURN_IF_ERROR(CheckShape("`counts`", counts, {workers, tables_}));
    const auto count = counts.matrix<int32_t>();
    std::vector<int64_t> of_table(tables_, 0);
    int64_t total = 0;
    for (int64_t w = 0; w < workers; ++w) {
      int64_t here = 0;
      for (int64_t t = 0; t < tables_; ++t) {
        if (count(w, t) < 0) return InvalidArgument("A count must be at least 0; received ", count(w, t), " of worker ", w, ".");
        of_table[t] += count(w, t);
        here += count(w, t);
      }
      if (here > size) return InvalidArgument("Worker ", w, " sent ", size, " slots; its counts say ", here, ".");
      total += here;
    }

    OpOutputList keys, times, splits;
    Tensor *tensor, *slots;
    TF_RETURN_IF_ERROR(context->output_list("keys", &keys));
    TF_RETURN_IF_ERROR(context->output_list("times", &times));
    TF_RETURN_IF_ERROR(context->output_list("splits", &splits));
    TF_RETURN_IF_ERROR(context->allocate_output(3 * tables_, TensorShape({total, 1}), &slots));
    std::vector<int64_t*> key, time;
    std::vector<int64_t> slot(tables_, 0);
    int64_t* const slot_of = slots->flat<int64_t>().data();
    for (int64_t t = 0, first = 0; t < tables_; first += of_table[t++]) {
      TF_RETURN_IF_ERROR(keys.allocate(t, TensorShape({of_table[t]}), &tensor));
      key.push_back(tensor->flat<int64_t>().data());
      TF_RETURN_IF_ERROR(times.allocate(t, TensorShape({of_table[t]}), &tensor));
      time.push_back(tensor->flat<int64_t>().data());
      TF_RETURN_IF_ERROR(splits.allocate(t, TensorShape({2}), &tensor));
      tensor->flat<int64_t>()(0) = 0, tensor->flat<int64_t>()(1) = of_table[t];
      slot[t] = first;
    }
    const int64_t* const sent = came.flat<int64_t>().data();
    for (int64_t w = 0; w < workers; ++w) {
      int64_t at = w * size;
      for (int64_t t = 0; t < tables_; ++t) {
        for (int64_t end = at + count(w, t); at < end; ++at) {
          *key[t]++ = sent[at * width];
          *time[t]++ = width == 2 ? sent[at * width + 1] : 1;
          slot_of[slot[t]++] = at;
        }
      }
    }
    return absl::OkStatus();
  }

  int64_t tables_;
};

REGISTER_KERNEL_BUILDER(Name("Ctrlab>AskedKeys").Device(DEVICE_CPU), AskedKeysOp);
REGISTER_KERNEL_BUILDER(Name("Ctrlab>KeysByTable").Device(DEVICE_CPU), KeysByTableOp);

}  // namespace
}  // namespace ctrlab
