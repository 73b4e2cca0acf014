// All weights of an exported version that is loaded: its tables, and its dense tensors as one packed block.
//
// The process has one bundle of each name, so that all sessions, and all pools of threads, that load a version read one copy. The
// name is the export's own, and may have "@" and more behind it: a copy of a version, in another folder, has updates of its own.
// The first user opens the bundle; it goes with the last.
//
// Updates (update.h) change the weights in place. Who wants answers that are each of one moment holds the gate, shared, while a
// call of the model runs.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/abi.h"
#include "kernels/lookup/row_format.h"
#include "serving/weights_file.h"
#include "store/gate.h"
#include "store/status.h"
#include "table/pages.h"
#include "table/served.h"

namespace ctrlab::serving {

using embedding::Status;

struct TableShape {
  std::string name;         // used in messages
  int64_t dim;              // D
  int64_t rows;             // number of rows, if it is fixed; -1: rows under any keys
  int64_t memory_rows = 0;  // of a table under any keys: the most rows in memory, others lie on disk; 0: all are in memory
  RowFormat format = RowFormat::kFloat32;

  int64_t words() const { return RowWords(format, dim); }
};

struct BundleShape {
  std::vector<TableShape> tables;
  std::vector<int64_t> dense_bytes;  // size of each dense tensor
};

class Storage;

// The error for a record that does not fit the table or tensor for which it is meant.
Status Misfit(const Record& record, const std::string& whose);

// The arrays of a record of rows.
struct RowArrays {
  const int64_t* keys;         // [n]
  const int64_t* frequencies;  // [n], or null
  const float* values;         // [n, words]

  // False if the record's size is not that of rows of the table.
  bool Find(const Record& record, const TableShape& table);
};

// Refuses packed rows whose scale is not a finite number of at least 0.
Status CheckRows(const TableShape& table, const float* rows, int64_t count);

// The dense tensors, each aligned as vector code and TensorFlow want it.
class Dense {
 public:
  explicit Dense(const std::vector<int64_t>& bytes);

  char* at(int64_t tensor) const { return block_.data<char>() + places_[tensor]; }

 private:
  std::vector<int64_t> places_;
  embedding::Pages block_;
};

// Fills the dense tensors from records.
class DenseIn {
 public:
  DenseIn(const std::vector<int64_t>& bytes, Dense* dense) : bytes_(bytes), dense_(dense), there_(bytes.size()) {}

  Status Add(const Record& record);
  bool whole() const { return there_ == bytes_; }

 private:
  const std::vector<int64_t>& bytes_;
  Dense* const dense_;
  std::vector<int64_t> there_;  // bytes of each tensor that have been filled
};

// A table of one of the two kinds; the other member is null.
struct BundleTable {
  std::shared_ptr<embedding::Pages> fixed;          // [rows, words]
  std::shared_ptr<embedding::ServedTable> growing;  // rows under any keys
};

class Bundle {
 public:
  // The bundle of this name: found, or made and not open.
  static std::shared_ptr<Bundle> Named(const std::string& name);
  explicit Bundle(std::string name);  // only for Named
  ~Bundle();

  // The name that the export gave to its weights, and to each update of them.
  std::string export_name() const { return name_.substr(0, name_.find('@')); }

  // Loads a version's weights. An open bundle stays as it is, because all files of its name have the same content. After a
  // problem the bundle is not open, and another file may be tried.
  Status Open(const BundleShape& shape, const std::string& path, const ParallelFor& parallel_for);

  // Whether Open succeeded. What follows may be called then.
  bool is_open() const { return open_.load(std::memory_order_acquire); }
  const BundleShape& shape() const { return shape_; }
  const BundleTable& table(int64_t t) const { return tables_[t]; }
  const std::shared_ptr<const Dense>& dense() const { return dense_; }

  // Applies the update that follows the last one; does nothing if another user of the bundle was first. It is prepared while calls
  // run, and committed between them. With a problem nothing has changed.
  Status Apply(const std::string& path);
  embedding::Gate& gate() const { return gate_; }
  // The moment that the weights come from; hold the gate.
  const Moment& moment() const { return moment_; }
  // The longest time for which an update has delayed calls, in microseconds since it closed the gate; hold the gate.
  int64_t longest_pause() const { return longest_pause_; }

 private:
  struct Registry;
  static Registry& TheRegistry();
  struct Filled;

  Status Make(const BundleShape& shape, Filled* filled) const;
  Status Load(const BundleShape& shape, const Record& record, const ParallelFor& parallel_for, Filled* filled) const;

  const std::string name_;
  std::mutex opening_;
  std::mutex updating_;
  mutable embedding::Gate gate_;
  Moment moment_;
  int64_t longest_pause_ = 0;
  std::atomic<bool> open_ = false;
  BundleShape shape_;
  std::unique_ptr<Storage> storage_;  // below, and deleted after, the tables
  std::vector<BundleTable> tables_;
  std::shared_ptr<const Dense> dense_;
};

}  // namespace ctrlab::serving
