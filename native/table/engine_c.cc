#include "table/engine_c.h"

#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "store/scratch.h"
#include "store/segment_store.h"
#include "table/messages.h"
#include "table/served.h"

using namespace ctrlab;
using namespace ctrlab::embedding;

namespace {

using TablePtr = std::shared_ptr<ServedTable>;

constexpr int64_t kMostKeys = int64_t{1} << 31;

struct Answer {
  int code = CTRLAB_TABLE_OK;
  Status status;
};

template <class... Parts>
Answer Refuse(int code, const Parts&... parts) {
  return {code, Problem(parts...)};
}

Answer OfTable(const ServedTable& table, const Status& status, int code = CTRLAB_TABLE_FAILED) {
  if (status.ok()) return {};
  return Refuse(code, "Served table ", table.name().name, ": ", status.problem());
}

class Handles {
 public:
  ctrlab_table Give(TablePtr table) {
    std::lock_guard lock(mutex_);
    tables_.emplace(last_ + 1, std::move(table));
    return ++last_;
  }

  TablePtr Find(ctrlab_table handle) const {
    std::shared_lock lock(mutex_);
    const auto at = tables_.find(handle);
    return at == tables_.end() ? nullptr : at->second;
  }

  // The handle's object: its last holder frees a table, which takes a while.
  TablePtr Take(ctrlab_table handle) {
    std::lock_guard lock(mutex_);
    const auto node = tables_.extract(handle);
    return node ? std::move(node.mapped()) : nullptr;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<ctrlab_table, TablePtr> tables_;
  ctrlab_table last_ = 0;
};

// Never destroyed: threads may still use it while the process ends.
Handles& TheHandles() {
  static Handles& handles = *new Handles;
  return handles;
}

int Say(const Answer& answer, char* problem, size_t problem_size) {
  if (problem && problem_size > 0) std::snprintf(problem, problem_size, "%s", answer.status.text());
  return answer.code;
}

template <class Call>
int Guarded(char* problem, size_t problem_size, const Call& call) {
  try {
    return Say(call(), problem, problem_size);
  } catch (const std::bad_alloc&) {
    if (problem && problem_size > 0) std::snprintf(problem, problem_size, "The machine's memory does not suffice for the call.");
  } catch (const std::exception& error) {
    if (problem && problem_size > 0) std::snprintf(problem, problem_size, "The engine failed: %s.", error.what());
  }
  return CTRLAB_TABLE_FAILED;
}

Answer Released(ctrlab_table handle) {
  return Refuse(CTRLAB_TABLE_RELEASED, "A table is used by a handle that find or open gave and that is not released; received ",
                handle, ".");
}

template <class Call>
Answer WithTable(ctrlab_table handle, const Call& call) {
  const TablePtr table = TheHandles().Find(handle);
  return table ? call(*table) : Released(handle);
}

Answer CheckPointer(const char* what, const void* pointer, int64_t count = 1) {
  if (count < 0) return Refuse(CTRLAB_TABLE_INVALID, "A count must be 0 or more; received ", count, " ", what, ".");
  if (count == 0 || pointer) return {};
  return Refuse(CTRLAB_TABLE_INVALID, "A call must be given its ", what, "; received null.");
}

template <class Struct>
Answer CheckStruct(const char* what, const Struct* given) {
  if (Answer bad = CheckPointer(what, given); bad.code) return bad;
  if (given->struct_size == sizeof(Struct)) return {};
  return Refuse(CTRLAB_TABLE_INVALID, "The ", what, " of interface ", CTRLAB_ENGINE_VERSION, " have a struct_size of ",
                sizeof(Struct), "; received ", given->struct_size, ": build the program with this library's engine_c.h.");
}

Answer CheckNumbers(const ServedTable& table, int64_t count, int64_t numbers) {
  if (count >= kMostKeys) return Refuse(CTRLAB_TABLE_INVALID, "A call is of less than 2^31 keys; received ", count, ".");
  const int64_t dim = table.table().dim();
  if (numbers == count * dim) return {};
  return Refuse(CTRLAB_TABLE_INVALID, "Served table ", table.name().name, " has ", dim, " numbers per row; received room for ",
                numbers, " with ", count, " keys.");
}

Answer CheckRows(const ServedTable& table, const ctrlab_table_rows& rows) {
  if (Answer bad = CheckStruct("rows", &rows); bad.code) return bad;
  if (Answer bad = CheckPointer("keys", rows.keys, rows.count); bad.code) return bad;
  if (Answer bad = CheckPointer("values", rows.values, rows.count); bad.code) return bad;
  return CheckNumbers(table, rows.count, rows.numbers);
}

Answer ReadThreads(const ctrlab_threads* threads, ParallelFor* parallel_for) {
  *parallel_for = kAlone;
  if (!threads) return {};
  if (Answer bad = CheckStruct("threads", threads); bad.code) return bad;
  if (!threads->run) return Refuse(CTRLAB_TABLE_INVALID, "Threads are given with the function that runs on them; received null.");
  *parallel_for = {threads->pool, threads->run};
  return {};
}

Answer CheckName(const char* container, const char* name) {
  if (Answer bad = CheckPointer("container", container); bad.code) return bad;
  if (Answer bad = CheckPointer("name", name); bad.code) return bad;
  return *name ? Answer{} : Refuse(CTRLAB_TABLE_INVALID, "A table's name must not be empty.");
}

TableOptions TableOptionsOf(const ctrlab_table_options& options) {
  TableOptions table_options;
  table_options.dim = options.dim;
  return table_options;
}

Answer CheckOptions(const ctrlab_table_options* options) {
  if (Answer bad = CheckStruct("options", options); bad.code) return bad;
  if (Answer bad = CheckName(options->container, options->name); bad.code) return bad;
  if (Status bad = Table::CheckOptions(TableOptionsOf(*options)); !bad.ok()) return {CTRLAB_TABLE_INVALID, bad};
  const bool below = options->storage && *options->storage && options->memory_rows >= 1 && options->memory_rows <= kMostRows;
  if (options->storage ? below : options->memory_rows == 0) return {};
  return Refuse(CTRLAB_TABLE_INVALID, "A table with a storage has 1 to ", kMostRows,
                " memory rows, and one without has 0; received ", options->memory_rows, options->storage ? " with '" : " without",
                options->storage ? options->storage : "", options->storage ? "'." : ".");
}

Status MakeTable(const ctrlab_table_options& options, std::unique_ptr<Table>* table) {
  if (Status bad = Table::Make(TableOptionsOf(options), table); !bad.ok() || !options.storage) return bad;
  StoreOptions store_options;
  store_options.path = options.storage;
  return (*table)->SetTier({StoresIn(std::move(store_options)), options.memory_rows, Cache::kLfu});
}

}  // namespace

int ctrlab_engine_version(void) { return CTRLAB_ENGINE_VERSION; }

int ctrlab_table_find(const char* container, const char* name, ctrlab_table* table, char* problem, size_t problem_size) {
  return Guarded(problem, problem_size, [&]() -> Answer {
    if (Answer bad = CheckPointer("place for the handle", table); bad.code) return bad;
    *table = 0;
    if (Answer bad = CheckName(container, name); bad.code) return bad;
    TablePtr found = ServedTable::Find({container, name});
    if (!found) {
      return Refuse(CTRLAB_TABLE_UNKNOWN, "There is no served table ", name, " in container '", container,
                    "': open it, or load the model that has it.");
    }
    *table = TheHandles().Give(std::move(found));
    return {};
  });
}

int ctrlab_table_open(const ctrlab_table_options* options, ctrlab_table* table, char* problem, size_t problem_size) {
  return Guarded(problem, problem_size, [&]() -> Answer {
    if (Answer bad = CheckPointer("place for the handle", table); bad.code) return bad;
    *table = 0;
    if (Answer bad = CheckOptions(options); bad.code) return bad;
    TablePtr opened;
    bool made = false;
    const auto make = [&](std::unique_ptr<Table>* fresh) { return MakeTable(*options, fresh); };
    const Status status = ServedTable::FindOrMake({options->container, options->name}, options->version, make, &opened, &made);
    if (!status.ok()) return Refuse(CTRLAB_TABLE_FAILED, "Served table ", options->name, ": ", status.problem());
    if (!made) {
      return Refuse(CTRLAB_TABLE_EXISTS, "There is a served table ", options->name, " in container '", options->container,
                    "' already: find it, or open another under a name of its own.");
    }
    *table = TheHandles().Give(std::move(opened));
    return {};
  });
}

int ctrlab_table_load(ctrlab_table table, const ctrlab_table_rows* rows, const ctrlab_threads* threads, char* problem,
                      size_t problem_size) {
  return Guarded(problem, problem_size, [&] {
    return WithTable(table, [&](ServedTable& found) -> Answer {
      ParallelFor parallel_for;
      if (Answer bad = ReadThreads(threads, &parallel_for); bad.code) return bad;
      if (Answer bad = CheckPointer("rows", rows); bad.code) return bad;
      if (Answer bad = CheckRows(found, *rows); bad.code) return bad;
      return OfTable(found, found.Load({rows->keys, rows->values, rows->count}, parallel_for));
    });
  });
}

int ctrlab_table_apply(ctrlab_table table, const ctrlab_table_delta* delta, const ctrlab_threads* threads, char* problem,
                       size_t problem_size) {
  return Guarded(problem, problem_size, [&] {
    return WithTable(table, [&](ServedTable& found) -> Answer {
      ParallelFor parallel_for;
      if (Answer bad = ReadThreads(threads, &parallel_for); bad.code) return bad;
      if (Answer bad = CheckStruct("delta's parts", delta); bad.code) return bad;
      if (Answer bad = CheckRows(found, delta->rows); bad.code) return bad;
      if (Answer bad = CheckPointer("removed keys", delta->removed, delta->removed_count); bad.code) return bad;
      if (delta->to_version <= delta->from_version) {
        return Refuse(CTRLAB_TABLE_INVALID, "A delta leads to a later version; received one from ", delta->from_version, " to ",
                      delta->to_version, ".");
      }
      const ServedRows rows{delta->rows.keys, delta->rows.values, delta->rows.count};
      bool follows = true;
      const Status status = found.Apply({delta->from_version, delta->to_version, rows, delta->removed, delta->removed_count},
                                        parallel_for, &follows);
      return OfTable(found, status, follows ? CTRLAB_TABLE_FAILED : CTRLAB_TABLE_GAP);
    });
  });
}

int ctrlab_table_lookup(ctrlab_table table, const int64_t* keys, int64_t count, float* rows, int64_t numbers,
                        const ctrlab_threads* threads, char* problem, size_t problem_size) {
  return Guarded(problem, problem_size, [&] {
    return WithTable(table, [&](const ServedTable& found) -> Answer {
      ParallelFor parallel_for;
      if (Answer bad = ReadThreads(threads, &parallel_for); bad.code) return bad;
      if (Answer bad = CheckPointer("keys", keys, count); bad.code) return bad;
      if (Answer bad = CheckPointer("place for the rows", rows, count); bad.code) return bad;
      if (Answer bad = CheckNumbers(found, count, numbers); bad.code) return bad;
      return OfTable(found, found.Lookup(keys, count, rows, parallel_for));
    });
  });
}

int ctrlab_table_read_figures(ctrlab_table table, ctrlab_table_figures* figures, char* problem, size_t problem_size) {
  return Guarded(problem, problem_size, [&] {
    return WithTable(table, [&](const ServedTable& found) -> Answer {
      if (Answer bad = CheckStruct("figures", figures); bad.code) return bad;
      const int64_t version = found.version();
      const TableStats s = found.table().Stats();
      *figures = {sizeof *figures, found.table().dim(), version, s.rows, s.rows_below, s.bytes, s.hits, s.hits_below, s.misses};
      return {};
    });
  });
}

int ctrlab_table_release(ctrlab_table table, char* problem, size_t problem_size) {
  return Guarded(problem, problem_size, [&]() -> Answer { return TheHandles().Take(table) ? Answer{} : Released(table); });
}
