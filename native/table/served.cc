#include "table/served.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "table/lookup.h"
#include "table/messages.h"

namespace ctrlab::embedding {

struct ServedTable::Registry {
  std::mutex mutex;
  std::map<ServedName, std::weak_ptr<ServedTable>> tables;
};

// Never destroyed: threads may still use it while the process ends.
ServedTable::Registry& ServedTable::TheRegistry() {
  static Registry& registry = *new Registry;
  return registry;
}

ServedTable::ServedTable(ServedName name, int64_t version, std::unique_ptr<Table> table)
    : name_(std::move(name)), table_(std::move(table)), version_(version) {}

ServedTable::~ServedTable() {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  // A new table of the same name may have been made since the last holder released this one.
  if (const auto at = registry.tables.find(name_); at != registry.tables.end() && at->second.expired()) registry.tables.erase(at);
}

std::shared_ptr<ServedTable> ServedTable::Find(const ServedName& name) {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  const auto at = registry.tables.find(name);
  return at == registry.tables.end() ? nullptr : at->second.lock();
}

Status ServedTable::FindOrMake(const ServedName& name, int64_t version, const MakeTable& make,
                               std::shared_ptr<ServedTable>* table, bool* made) try {
  std::shared_ptr<ServedTable> found;  // destroyed after the lock is released, because its destructor takes the lock
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  std::weak_ptr<ServedTable>& place = registry.tables[name];
  found = place.lock();
  *made = found == nullptr;
  if (*made) {
    std::unique_ptr<Table> fresh;
    if (Status bad = make(&fresh); !bad.ok()) {
      registry.tables.erase(name);
      return bad;
    }
    place = found = std::make_shared<ServedTable>(name, version, std::move(fresh));
  }
  *table = found;
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

Status ServedTable::Load(const ServedRows& rows, const ParallelFor& parallel_for) {
  std::lock_guard lock(writer_);
  if (changed_) {
    return Problem("Rows are loaded before the first delta; the table is at version ", version(),
                   " by deltas: open another table for another version's rows.");
  }
  return Take(ImportKind::kMore, rows, {}, parallel_for);
}

Status ServedTable::LoadOnce(const ServedRows& rows, const ParallelFor& parallel_for) {
  std::lock_guard lock(writer_);
  return loaded_ ? Status() : Take(ImportKind::kMore, rows, {}, parallel_for);
}

Status ServedTable::Apply(const ServedDelta& delta, const ParallelFor& parallel_for, bool* follows) {
  std::lock_guard lock(writer_);
  *follows = delta.from == version();
  if (!*follows) {
    return Problem("A delta must follow the version that the table has; it is at ", version(), " and received a delta from ",
                   delta.from, " to ", delta.to, ": apply those between first, or load a later version as another table.");
  }
  const std::span removed(delta.removed, delta.removed_count);
  if (Status bad = Take(ImportKind::kChanges, delta.rows, removed, parallel_for); !bad.ok()) return bad;
  changed_ = true;
  version_.store(delta.to, std::memory_order_release);
  return Status();
}

Status ServedTable::Take(ImportKind kind, const ServedRows& rows, std::span<const int64_t> removed,
                         const ParallelFor& parallel_for) try {
  const std::vector<int64_t> never(rows.count);  // frequencies and last steps, which are not needed without training
  StateIn in;
  in.keys = rows.keys;
  in.values = rows.values;
  in.steps = never.data();
  in.frequencies = rows.frequencies ? rows.frequencies : never.data();
  in.removed = removed.data();
  Status status = table_->Import(kind, {0, 1}, {rows.count, 0, 0, std::ssize(removed)}, 0, in, parallel_for);
  loaded_ = loaded_ || status.ok();
  return status;
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

Status ServedTable::Lookup(const int64_t* keys, int64_t count, float* rows, const ParallelFor& parallel_for) const {
  const int64_t dim = table_->numbers();
  const LookupTable shape{0, dim};
  const LookupColumn column{keys, nullptr, 0, 0, 0, kRows};
  Table* const tables[] = {table_.get()};
  return embedding::Lookup({&column, 1, &shape, 1, &dim, count}, tables, /*training=*/false, &rows, parallel_for);
}

}  // namespace ctrlab::embedding
