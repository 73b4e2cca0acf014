// One step of an optimizer on several tables, which all take it or none, and the norms before it; step.h has one table's part.

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "table/messages.h"
#include "table/step.h"

namespace ctrlab::embedding {
namespace {

constexpr int kSlotsOf[] = {0, 1, 2, 2};

Status Check(const MergedBatch& batch) {
  if (batch.size >= int64_t{1} << 31) return Problem("An update's keys must number below 2^31; received ", batch.size, ".");
  for (int64_t i = 0; i < batch.size; ++i) {
    if (i > 0 && batch.keys[i - 1] >= batch.keys[i]) {
      return Problem("An update's keys must ascend, each once; received ", batch.keys[i], " after ", batch.keys[i - 1], " at ", i,
                     ".");
    }
    if (batch.counts[i] < 1) {
      return Problem("An update's counts must be at least 1; received ", batch.counts[i], " for key ", batch.keys[i], " at ", i,
                     ".");
    }
  }
  return Status();
}

}  // namespace

Status Table::StepAll(std::span<const TableStep> steps, const StepRule& rule, const ParallelFor& parallel_for, double* squares,
                      int64_t* which) try {
  int64_t at = 0;
  if (!which) which = &at;
  *which = 0;
  if (!(rule.step >= 1 && rule.step < 1u << 31 && rule.step == std::floor(rule.step))) {
    return Problem("A step must be a whole number in [1, 2^31); received ", rule.step, ".");
  }
  for (const TableStep& one : steps) {
    *which = &one - steps.data();
    if (Status bad = Check(one.batch); !bad.ok()) return bad;
    (void)one.table->Relieve();  // if the disk refuses this, it also refuses a Put that needs it
  }
  std::vector<const TableStep*> order;  // in the order in which every caller takes their locks
  for (const TableStep& one : steps) order.push_back(&one);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return std::less<>()(a->table, b->table); });
  std::vector<std::unique_lock<FairMutex>> writers;
  for (const TableStep* one : order) {
    *which = one - steps.data();
    if (!writers.empty() && one->table == order[writers.size() - 1]->table) {
      return Problem("A step changes each table once; received one twice.");
    }
    writers.emplace_back(one->table->writer_);
  }
  for (const TableStep& one : steps) {
    *which = &one - steps.data();
    if (const int64_t slots = one.table->content_->rows->slots(); slots != kSlotsOf[rule.kind]) {
      return Problem("The optimizer needs ", kSlotsOf[rule.kind], " slots; the table has ", slots, ": SetSlots comes first.");
    }
  }
  std::vector<std::unique_ptr<Step>> prepared;
  std::vector<Index::Old> old(steps.size());
  Status status;
  try {
    for (const TableStep& one : steps) {
      *which = &one - steps.data();
      if (squares) squares[*which] = 0;
      if (one.batch.size == 0) continue;
      if (status = one.table->OpenTier(); !status.ok()) break;
      prepared.push_back(std::make_unique<Step>(*one.table, one.batch, rule, parallel_for));
      if (status = prepared.back()->Gather(); !status.ok()) break;
      if (squares) squares[*which] = prepared.back()->SquaredNorm();
      else prepared.back()->Reserve();
    }
  } catch (const std::bad_alloc&) {
    status = OutOfMemory();
  }
  if (squares || !status.ok()) {
    for (const auto& step : prepared) step->Cancel();
    return status;
  }
  for (size_t t = 0; t < prepared.size(); ++t) {
    prepared[t]->Admit();
    prepared[t]->Apply(prepared[t]->Scale(), &old[t]);
  }
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

Status Update(std::span<const TableStep> steps, const StepRule& rule, const ParallelFor& parallel_for, int64_t* which) {
  return Table::StepAll(steps, rule, parallel_for, nullptr, which);
}

Status Norms(std::span<const TableStep> steps, const StepRule& rule, const ParallelFor& parallel_for, double* squares,
             int64_t* which) {
  return Table::StepAll(steps, rule, parallel_for, squares, which);
}

}  // namespace ctrlab::embedding
