// Tables that are served: the process's one registry of them, by container and name, so that all of its sessions and thread pools
// read one copy.
//
// All who find or make a table share it. With the last of them it leaves the registry and the memory. Look-ups may come from any
// number of threads at any time; loads and deltas of a table wait for each other.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "store/status.h"
#include "table/table.h"

namespace ctrlab::embedding {

// As TensorFlow names its resources. The name tells what is served apart from other versions of it.
struct ServedName {
  std::string container, name;
  auto operator<=>(const ServedName&) const = default;
};

// Keys, each once, and their rows.
struct ServedRows {
  const int64_t* keys;  // [n]
  const float* values;  // [n, D]
  int64_t count;        // n
};

// What leads from one version to another: keys that go, then rows that come or take the place of those there.
struct ServedDelta {
  int64_t from, to;  // to > from
  ServedRows rows;
  const int64_t* removed;
  int64_t removed_count;
};

class ServedTable {
 public:
  using MakeTable = std::function<Status(std::unique_ptr<Table>* table)>;

  // Null where there is none of that name.
  static std::shared_ptr<ServedTable> Find(const ServedName& name);
  // The table of that name; `made`: there was none, and it is what `make` gave, at `version`.
  static Status FindOrMake(const ServedName& name, int64_t version, const MakeTable& make, std::shared_ptr<ServedTable>* table,
                           bool* made);
  ServedTable(ServedName name, int64_t version, std::unique_ptr<Table> table);  // FindOrMake's
  ~ServedTable();

  const ServedName& name() const { return name_; }
  Table& table() const { return *table_; }
  // Look-ups that begin after this was read find at least this version.
  int64_t version() const { return version_.load(std::memory_order_acquire); }

  // Adds a part of the version's rows; refused once there was a delta, whose rows the part would replace by older ones.
  Status Load(const ServedRows& rows, const ParallelFor& parallel_for);
  // All rows of the version, in one part; nothing where some have been loaded: what the first of several sessions has done.
  Status LoadOnce(const ServedRows& rows, const ParallelFor& parallel_for);
  // All of a delta or, with a problem, nothing of it. `follows`: it begins at the version that the table has.
  Status Apply(const ServedDelta& delta, const ParallelFor& parallel_for, bool* follows);
  // keys [n] -> rows [n, D], n < 2^31; a key without a row reads 0.
  Status Lookup(const int64_t* keys, int64_t count, float* rows, const ParallelFor& parallel_for) const;

 private:
  struct Registry;
  static Registry& TheRegistry();

  Status Take(ImportKind kind, const ServedRows& rows, std::span<const int64_t> removed, const ParallelFor& parallel_for);

  const ServedName name_;
  const std::unique_ptr<Table> table_;
  std::mutex writer_;  // who changes what follows, and the table, holds it
  bool loaded_ = false, changed_ = false;
  std::atomic<int64_t> version_;
};

}  // namespace ctrlab::embedding
