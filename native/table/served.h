// Served tables: the process's registry of tables by container and name, so that all its sessions and thread pools read one copy.
//
// All users that find or make a table share it. When the last one releases it, it leaves the registry and its memory is freed.
// Lookups are thread-safe; loads and deltas of one table wait for each other.

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

// Named like TensorFlow's resources. The two together identify one version of what is served.
struct ServedName {
  std::string container, name;
  auto operator<=>(const ServedName&) const = default;
};

// Distinct keys and their rows.
struct ServedRows {
  const int64_t* keys;  // [n]
  const float* values;  // [n, D]
  int64_t count;        // n
  // [n], or null: 0. Where rows lie below the memory, those used most stay in it.
  const int64_t* frequencies = nullptr;
};

// The change from one version to another: keys to remove, then rows to add or replace.
struct ServedDelta {
  int64_t from, to;  // to > from
  ServedRows rows;
  const int64_t* removed;
  int64_t removed_count;
};

class ServedTable {
 public:
  using MakeTable = std::function<Status(std::unique_ptr<Table>* table)>;

  // Null if there is no table of that name.
  static std::shared_ptr<ServedTable> Find(const ServedName& name);
  // The table of that name. `made`: it did not exist, and is the result of `make`, at `version`.
  static Status FindOrMake(const ServedName& name, int64_t version, const MakeTable& make, std::shared_ptr<ServedTable>* table,
                           bool* made);
  // A table that only its holders know.
  ServedTable(ServedName name, int64_t version, std::unique_ptr<Table> table);
  ~ServedTable();

  const ServedName& name() const { return name_; }
  Table& table() const { return *table_; }
  // Lookups that begin after this call see at least this version.
  int64_t version() const { return version_.load(std::memory_order_acquire); }

  // Adds a part of the version's rows. Refused after a delta, whose rows the part would overwrite with older ones.
  Status Load(const ServedRows& rows, const ParallelFor& parallel_for);
  // Loads all rows of the version in one part. Does nothing if some are loaded: then another session was first.
  Status LoadOnce(const ServedRows& rows, const ParallelFor& parallel_for);
  // Applies the whole delta or, with a problem, nothing. `follows`: the delta starts at the table's version.
  Status Apply(const ServedDelta& delta, const ParallelFor& parallel_for, bool* follows);
  // keys [n] -> rows [n, D], n < 2^31; a key without a row reads 0.
  Status Lookup(const int64_t* keys, int64_t count, float* rows, const ParallelFor& parallel_for) const;

 private:
  struct Registry;
  static Registry& TheRegistry();

  Status Take(ImportKind kind, const ServedRows& rows, std::span<const int64_t> removed, const ParallelFor& parallel_for);

  const ServedName name_;
  const std::unique_ptr<Table> table_;
  std::mutex writer_;  // guards the members below, and changes of the table
  bool loaded_ = false, changed_ = false;
  std::atomic<int64_t> version_;
};

}  // namespace ctrlab::embedding
