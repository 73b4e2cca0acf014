#include "serving/bundle.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "serving/storage.h"
#include "serving/update.h"
#include "store/scratch.h"
#include "table/messages.h"

namespace ctrlab::serving {

using embedding::Pages;
using embedding::Problem;
using embedding::RoundUp;
using embedding::ServedTable;

namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kMostDense = int64_t{1} << 48;

}  // namespace

struct Bundle::Registry {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Bundle>> bundles;
};

// Never destroyed: threads may still use it while the process ends.
Bundle::Registry& Bundle::TheRegistry() {
  static Registry& registry = *new Registry;
  return registry;
}

// What a file fills. Nothing of it is seen before it is whole.
struct Bundle::Filled {
  std::unique_ptr<Storage> storage;
  std::vector<BundleTable> tables;
  std::vector<int64_t> rows;  // so far, of tables with a fixed number
  std::shared_ptr<Dense> dense;
  std::unique_ptr<DenseIn> dense_in;
};

Dense::Dense(const std::vector<int64_t>& bytes) {
  int64_t end = 0;
  for (const int64_t each : bytes) {
    places_.push_back(end);
    end += RoundUp(each, kAlignment);
  }
  block_ = Pages(end + kAlignment);  // so that a tensor without numbers has a place, too
}

Bundle::Bundle(std::string name) : name_(std::move(name)) {}

Bundle::~Bundle() {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  // A new bundle of the same name may have been made since the last holder released this one.
  if (const auto at = registry.bundles.find(name_); at != registry.bundles.end() && at->second.expired()) {
    registry.bundles.erase(at);
  }
}

std::shared_ptr<Bundle> Bundle::Named(const std::string& name) {
  Registry& registry = TheRegistry();
  std::shared_ptr<Bundle> found;  // destroyed after the lock is released, because its destructor takes the lock
  std::lock_guard lock(registry.mutex);
  std::weak_ptr<Bundle>& place = registry.bundles[name];
  found = place.lock();
  if (!found) place = found = std::make_shared<Bundle>(name);
  return found;
}

Status Bundle::Open(const BundleShape& shape, const std::string& path, const ParallelFor& parallel_for) try {
  std::lock_guard lock(opening_);
  if (is_open()) return Status();
  std::unique_ptr<WeightsFile> file;
  if (Status bad = WeightsFile::Open(path, &file); !bad.ok()) return bad;
  if (file->bundle() != export_name()) {
    return Problem("A version's weights are those of its graph; ", path, " is of another export: export the model again.");
  }
  Filled filled;
  if (Status bad = Make(shape, &filled); !bad.ok()) return bad;
  Record record;
  for (bool more;;) {
    if (Status bad = file->Next(&record, &more); !bad.ok()) return bad;
    if (!more) break;
    if (Status bad = Load(shape, record, parallel_for, &filled); !bad.ok()) return Problem(path, ": ", bad.problem());
  }
  for (size_t t = 0; t < shape.tables.size(); ++t) {
    if (shape.tables[t].rows >= 0 && filled.rows[t] != shape.tables[t].rows) {
      return Problem(path, " must hold the ", shape.tables[t].rows, " rows of table ", shape.tables[t].name, "; it holds ",
                     filled.rows[t], ": export the model again.");
    }
  }
  if (!filled.dense_in->whole()) {
    return Problem(path, " must hold every dense tensor whole; it does not: export the model again.");
  }
  shape_ = shape;
  storage_ = std::move(filled.storage);
  tables_ = std::move(filled.tables);
  dense_ = std::move(filled.dense);
  moment_ = file->moment();
  open_.store(true, std::memory_order_release);
  return Status();
} catch (const std::bad_alloc&) {
  return embedding::OutOfMemory();
}

Status Bundle::Make(const BundleShape& shape, Filled* filled) const {
  int64_t dense = 0;
  for (const int64_t bytes : shape.dense_bytes) {
    if (bytes < 0 || bytes > kMostDense || (dense += bytes) > kMostDense) {
      return Problem("Dense tensors have 0 to ", kMostDense, " bytes together; a graph says ", bytes,
                     " of one: export the model again.");
    }
  }
  for (const TableShape& table : shape.tables) {
    BundleTable& made = filled->tables.emplace_back();
    if (table.rows < -1 || table.memory_rows < 0) {
      return Problem("Table ", table.name, " can't have ", table.rows, " rows, ", table.memory_rows, " of them in memory.");
    }
    if (table.rows >= 0) {
      if (table.dim < 1 || table.dim > (int64_t{1} << 31) || table.rows > (int64_t{1} << 60) / 4 / table.words()) {
        return Problem("Table ", table.name, " can't have ", table.rows, " rows of ", table.dim, " numbers.");
      }
      made.fixed = std::make_shared<Pages>(table.rows * table.words() * 4 + kAlignment);
      continue;
    }
    if (table.memory_rows > 0 && !filled->storage) {
      if (Status bad = Storage::Take(&filled->storage); !bad.ok()) return bad;
    }
    const int64_t number = std::ssize(filled->tables) - 1;
    embedding::TableOptions options;
    if (table.dim > (1 << 16)) return Problem("Table ", table.name, " can't have rows of ", table.dim, " numbers.");
    options.dim = table.words();
    options.format = table.format;
    options.numbers = table.dim;
    std::unique_ptr<embedding::Table> rows;
    Status bad = embedding::Table::Make(options, &rows);
    if (bad.ok() && table.memory_rows > 0) {
      embedding::StoreOptions store;
      store.path = filled->storage->Of(number);
      bad = rows->SetTier({embedding::StoresIn(store), table.memory_rows, embedding::Cache::kLfu});
    }
    if (!bad.ok()) return Problem("Table ", table.name, ": ", bad.problem());
    // Not one that is found by name: the last bundle of this name may not have released its own yet.
    made.growing = std::make_shared<ServedTable>(embedding::ServedName{name_, std::to_string(number)}, 0, std::move(rows));
  }
  filled->rows.resize(shape.tables.size());
  filled->dense = std::make_shared<Dense>(shape.dense_bytes);
  filled->dense_in = std::make_unique<DenseIn>(shape.dense_bytes, filled->dense.get());
  return Status();
}

Status Misfit(const Record& record, const std::string& whose) {
  return Problem("a record of kind ", static_cast<int32_t>(record.kind), " with ", record.count, " from ", record.first, " in ",
                 record.bytes, " bytes does not fit ", whose, ": export the model again.");
}

Status CheckRows(const TableShape& table, const float* rows, int64_t count) {
  for (int64_t r = 0; table.format == RowFormat::kInt8 && r < count; ++r) {
    const float scale = rows[r * table.words()];
    if (std::isfinite(scale) && scale >= 0) continue;
    return Problem("a row of int8 has a scale of at least 0; one of ", table.name, " has ", scale, ": export the model again.");
  }
  return Status();
}

bool RowArrays::Find(const Record& record, const TableShape& table) {
  const int64_t numbers = table.memory_rows > 0 ? 2 : 1, count = record.count;  // numbers: int64 of each row
  if (count < 0 || count > WeightsFile::kMostBytes || record.bytes != count * (8 * numbers + 4 * table.words())) return false;
  keys = reinterpret_cast<const int64_t*>(record.arrays);
  frequencies = numbers > 1 ? keys + count : nullptr;
  values = reinterpret_cast<const float*>(keys + numbers * count);
  return true;
}

Status DenseIn::Add(const Record& record) {
  const int64_t count = record.count;
  if (record.index < 0 || record.index >= std::ssize(bytes_) || count < 0) return Misfit(record, "the model");
  int64_t& there = there_[record.index];
  if (record.bytes != count || record.first != there || count > bytes_[record.index] - there) return Misfit(record, "its tensor");
  std::memcpy(dense_->at(record.index) + there, record.arrays, count);
  there += count;
  return Status();
}

Status Bundle::Load(const BundleShape& shape, const Record& record, const ParallelFor& parallel_for, Filled* filled) const {
  if (record.kind == RecordKind::kDense) return filled->dense_in->Add(record);
  const int64_t count = record.count;
  if (record.index < 0 || record.index >= std::ssize(shape.tables) || count < 0 || count > WeightsFile::kMostBytes) {
    return Misfit(record, "the model");
  }
  const TableShape& table = shape.tables[record.index];
  BundleTable& to = filled->tables[record.index];
  int64_t& there = filled->rows[record.index];
  if (record.kind == RecordKind::kRun && to.fixed) {
    if (record.bytes != count * table.words() * 4 || record.first != there || count > table.rows - there) {
      return Misfit(record, table.name);
    }
    if (Status bad = CheckRows(table, reinterpret_cast<const float*>(record.arrays), count); !bad.ok()) return bad;
    std::memcpy(to.fixed->data<float>() + there * table.words(), record.arrays, record.bytes);
    there += count;
    return Status();
  }
  RowArrays rows;
  if (record.kind != RecordKind::kRows || !to.growing || !rows.Find(record, table)) return Misfit(record, table.name);
  if (Status bad = CheckRows(table, rows.values, count); !bad.ok()) return bad;
  return to.growing->Load({rows.keys, rows.values, count, rows.frequencies}, parallel_for);
}

Status Bundle::Apply(const std::string& path) {
  const std::lock_guard lock(updating_);
  std::unique_ptr<Update> update;
  if (Status bad = Update::Prepare(*this, path, &update); !bad.ok()) return bad;
  const int64_t last = moment_.update, next = update->moment().update;
  if (next >= 1 && next <= last) return Status();
  if (next != last + 1) {
    return Problem("Updates follow each other; ", path, " is the ", next, "th, and the last one was ", last, ".");
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::lock_guard alone(gate_);
  update->Commit();
  moment_ = update->moment();
  const auto pause = std::chrono::steady_clock::now() - begin;
  longest_pause_ = std::max<int64_t>(longest_pause_, std::chrono::duration_cast<std::chrono::microseconds>(pause).count());
  return Status();
}

}  // namespace ctrlab::serving
