// All weights of an exported version that is loaded: its tables, and its dense tensors as one packed block.
//
// The process has one bundle of each name, so that all sessions, and all pools of threads, that load a version read one copy. The
// name is the export's own. The first user opens the bundle; it goes with the last.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/abi.h"
#include "store/status.h"
#include "table/pages.h"
#include "table/served.h"

namespace ctrlab::serving {

using embedding::Status;

struct TableShape {
  std::string name;         // used in messages
  int64_t dim;              // D
  int64_t rows;             // of a table with a fixed number of rows; -1: rows under any keys
  int64_t memory_rows = 0;  // of a table under any keys: rows beyond these lie on disk; 0: all are in memory
};

struct BundleShape {
  std::vector<TableShape> tables;
  std::vector<int64_t> dense_bytes;  // of each dense tensor
};

class WeightsFile;
struct Record;
class Storage;

// The dense tensors, each aligned as vector code and TensorFlow want it.
class Dense {
 public:
  explicit Dense(const std::vector<int64_t>& bytes);

  char* at(int64_t tensor) const { return block_.data<char>() + places_[tensor]; }

 private:
  std::vector<int64_t> places_;
  embedding::Pages block_;
};

// A table of one of the two kinds; the other member is null.
struct BundleTable {
  std::shared_ptr<embedding::Pages> fixed;          // float32 [rows, D]
  std::shared_ptr<embedding::ServedTable> growing;  // rows under any keys
};

class Bundle {
 public:
  // The bundle of this name: found, or made and not open.
  static std::shared_ptr<Bundle> Named(const std::string& name);
  explicit Bundle(std::string name);  // Named's
  ~Bundle();

  // Loads a version's weights. An open bundle stays as it is, because all files of its name have the same content. After a
  // problem the bundle is not open, and another file may be tried.
  Status Open(const BundleShape& shape, const std::string& path, const ParallelFor& parallel_for);

  // Whether Open succeeded. What follows may be called then.
  bool is_open() const { return open_.load(std::memory_order_acquire); }
  const BundleShape& shape() const { return shape_; }
  const BundleTable& table(int64_t t) const { return tables_[t]; }
  const std::shared_ptr<const Dense>& dense() const { return dense_; }

 private:
  struct Registry;
  static Registry& TheRegistry();
  struct Filled;

  Status Make(const BundleShape& shape, Filled* filled) const;
  Status Load(const BundleShape& shape, const Record& record, const ParallelFor& parallel_for, Filled* filled) const;

  const std::string name_;
  std::mutex opening_;
  std::atomic<bool> open_ = false;
  BundleShape shape_;
  std::unique_ptr<Storage> storage_;  // below, and deleted after, the tables
  std::vector<BundleTable> tables_;
  std::shared_ptr<const Dense> dense_;
};

}  // namespace ctrlab::serving
