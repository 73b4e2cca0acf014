#include "segment_store_c.h"

#include <cstdio>
#include <memory>

#include "no_throw.h"
#include "segment_store.h"

using namespace ctrlab;
using namespace ctrlab::embedding;

namespace {

constexpr ParallelFor kAlone{nullptr,
                             [](void*, int64_t n, int64_t, void (*body)(void*, int64_t, int64_t), void* c) { body(c, 0, n); }};

SegmentStore& StoreOf(void* store) { return *static_cast<SegmentStore*>(store); }

// Garbage stays bounded whoever writes.
Status Relieved(void* store, Status written) { return written.ok() ? StoreOf(store).Relieve() : written; }

template <class Call>
int Guarded(StoreProblem* problem, const Call& call) {
  const Status status = NoThrow(call);
  std::snprintf(problem->sentence, sizeof problem->sentence, "%s", status.problem().c_str());
  return !status.ok();
}

}  // namespace

int ctrlab_store_open(const char* path, int64_t row_bytes, int64_t segment_bytes, int64_t write_buffer, int64_t compaction,
                      int64_t direct, void** store, StoreProblem* problem) {
  return Guarded(problem, [&] {
    StoreOptions options;
    options.path = path, options.row_bytes = row_bytes, options.segment_bytes = segment_bytes;
    options.write_buffer = write_buffer, options.compaction = static_cast<Compaction>(compaction), options.direct = direct != 0;
    std::unique_ptr<SegmentStore> opened;
    Status status = SegmentStore::Open(options, &opened);
    *store = opened.release();
    return status;
  });
}

void ctrlab_store_close(void* store) { delete static_cast<SegmentStore*>(store); }

int ctrlab_store_put(void* store, const int64_t* keys, const void* rows, int64_t count, StoreProblem* problem) {
  return Guarded(problem, [&] { return Relieved(store, StoreOf(store).Put(keys, rows, count)); });
}

int ctrlab_store_get(void* store, const int64_t* keys, int64_t count, void* rows, uint8_t* found, StoreProblem* problem) {
  return Guarded(problem, [&] { return StoreOf(store).Get(keys, count, rows, found, kAlone); });
}

int ctrlab_store_erase(void* store, const int64_t* keys, int64_t count, StoreProblem* problem) {
  return Guarded(problem, [&] { return Relieved(store, StoreOf(store).Erase(keys, count)); });
}

int ctrlab_store_flush(void* store, StoreProblem* problem) {
  return Guarded(problem, [&] { return StoreOf(store).Flush(); });
}

int ctrlab_store_compact(void* store, StoreProblem* problem) {
  return Guarded(problem, [&] { return StoreOf(store).Compact(); });
}

void ctrlab_store_stats(void* store, StoreNumbers* numbers) {
  const StoreStats s = StoreOf(store).Stats();
  *numbers = {s.live,        s.total, s.segments,        s.disk_bytes,    s.memory_bytes, s.user_bytes, s.compaction_bytes,
              s.compactions, s.reads, s.dropped_records, s.pending_bytes, s.compacting};
}

int ctrlab_store_warning(void* store, int64_t index, StoreProblem* sentence) {
  std::vector<std::string> warnings;
  if (Guarded(sentence, [&] { return warnings = StoreOf(store).Warnings(), Status(); })) return 0;  // that is one, too
  if (index >= std::ssize(warnings)) return 1;
  std::snprintf(sentence->sentence, sizeof sentence->sentence, "%s", warnings[index].c_str());
  return 0;
}

int ctrlab_store_snapshot(void* store, void** snapshot, int64_t* size, StoreProblem* problem) {
  return Guarded(problem, [&] {
    std::unique_ptr<StoreSnapshot> made;
    Status status = StoreOf(store).Snapshot(&made);
    *size = made ? made->size() : 0;
    *snapshot = made.release();
    return status;
  });
}

int ctrlab_store_next(void* snapshot, int64_t limit, int64_t* keys, void* rows, int64_t* count, StoreProblem* problem) {
  return Guarded(problem, [&] { return static_cast<StoreSnapshot*>(snapshot)->Next(limit, keys, rows, count); });
}

void ctrlab_store_release(void* snapshot) { delete static_cast<StoreSnapshot*>(snapshot); }
