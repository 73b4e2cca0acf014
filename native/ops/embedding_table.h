// The table of an embedding variable as a TensorFlow resource, and how ops find it by its handle.

#pragma once

#include <atomic>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "ops/resource.h"
#include "table/served.h"
#include "table/table.h"

namespace ctrlab {

// An error of the engine, with the name of its table.
inline absl::Status OfTable(const std::string& name, const embedding::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return InvalidArgument("Embedding variable ", name, ": ", status.problem());
}

// The table, and the names of its optimizer's slots; the engine only knows their number. Changing the slots requires
// `slots_mutex` exclusively. Using names that must match the slots requires it shared.
class TableResource : public tensorflow::ResourceBase {
 public:
  static constexpr char kKind[] = "an embedding variable";

  TableResource(std::string name, std::unique_ptr<embedding::Table> table) : name_(std::move(name)), table_(std::move(table)) {}
  // One of several resources for one served table; they do not know of each other.
  TableResource(std::string name, std::shared_ptr<embedding::ServedTable> served)
      : name_(std::move(name)), served_(std::move(served)) {}

  std::string DebugString() const override { return absl::StrCat("embedding variable ", name_); }
  int64_t MemoryUsed() const override { return table().Stats().bytes; }
  const std::string& name() const { return name_; }
  embedding::Table& table() const { return served_ ? served_->table() : *table_; }
  // For consumers of its change log: ops/consumer.h.
  embedding::Table& log() const { return table(); }
  absl::Status Told(const embedding::Status& status) const { return OfTable(name_, status); }
  embedding::ServedTable* served() const { return served_.get(); }  // or null

  absl::Status MayBeTrained() const {
    if (!served_) return absl::OkStatus();
    return InvalidArgument("Embedding variable ", name_,
                           " is served, to all who have loaded the model: its rows change by deltas of those that train it.");
  }

  // Ops refuse it from then on; those that run are not stopped.
  void Close() { closed_.store(true); }
  absl::Status Usable() const {
    if (!closed_.load(std::memory_order_relaxed)) return absl::OkStatus();
    return InvalidArgument("Embedding variable ", name_, " is closed, and its rows are gone: load or build its model again.");
  }

  std::shared_mutex slots_mutex;
  std::vector<std::string> slot_names;

  // The latest step of an update or of an imported state. A state that replaces everything sets it anew.
  int64_t last_step() const { return last_step_.load(std::memory_order_relaxed); }
  void SetStep(int64_t step) { last_step_.store(step, std::memory_order_relaxed); }
  void SawStep(int64_t step) {
    int64_t last = last_step();
    while (last < step && !last_step_.compare_exchange_weak(last, step, std::memory_order_relaxed)) {
    }
  }

 private:
  const std::string name_;
  const std::unique_ptr<embedding::Table> table_;         // null if the table is served
  const std::shared_ptr<embedding::ServedTable> served_;  // null if the table is not served
  std::atomic<int64_t> last_step_ = 0;
  std::atomic<bool> closed_ = false;
};

using TablePtr = tensorflow::core::RefCountPtr<TableResource>;
using TableOp = ResourceOp<TableResource>;

// The tables of the input list `tables`; the op was made for their dimensions.
template <class Dims>
absl::Status FindTables(OpKernelContext* context, const Dims& dims, std::vector<TablePtr>* tables) {
  OpInputList handles;
  TF_RETURN_IF_ERROR(context->input_list("tables", &handles));
  for (int t = 0; t < handles.size(); ++t) {
    TF_RETURN_IF_ERROR(FindResource(context, handles[t], &tables->emplace_back()));
    const TableResource& found = *tables->back();
    if (found.table().numbers() != dims(t)) {
      return InvalidArgument("Embedding variable ", found.name(), " has rows of ", found.table().numbers(), " numbers; table ", t,
                             " of the op should have ", dims(t), ".");
    }
  }
  return absl::OkStatus();
}

// An int64 input of a given number of elements.
inline absl::Status ReadNumbers(OpKernelContext* context, const char* name, int64_t count, const int64_t** numbers) {
  const Tensor* tensor;
  TF_RETURN_IF_ERROR(context->input(name, &tensor));
  if (tensor->NumElements() != count) {
    return InvalidArgument("`", name, "` must have ", count, " numbers; received ", tensor->shape().DebugString(), ".");
  }
  *numbers = tensor->flat<int64_t>().data();
  return absl::OkStatus();
}

}  // namespace ctrlab
