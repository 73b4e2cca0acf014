#include "store/segment_store_c.h"

#include <cstdio>
#include <memory>

#include "store/no_throw.h"
#include "store/segment_store.h"
#include "store/store_handles.h"

using namespace ctrlab;
using namespace ctrlab::embedding;

namespace {

// Never destroyed: at the end of the process, open stores are left as if it had been killed.
Handles<SegmentStore>& Stores() {
  static auto* const stores = new Handles<SegmentStore>("A store that was closed holds nothing; open it again.");
  return *stores;
}

Handles<StoreSnapshot>& Snapshots() {
  static auto* const snapshots = new Handles<StoreSnapshot>("A snapshot that was released holds nothing; take another one.");
  return *snapshots;
}

// Bounds the garbage, however fast callers write.
Status Relieved(SegmentStore& store, Status written) { return written.ok() ? store.Relieve() : written; }

template <class Call>
int Guarded(StoreProblem* problem, const Call& call) {
  const Status status = NoThrow(call);
  std::snprintf(problem->sentence, sizeof problem->sentence, "%s", status.text());
  return !status.ok();
}

template <class Call>
int OnStore(int64_t store, StoreProblem* problem, const Call& call) {
  return Guarded(problem, [&] { return Stores().With(store, call); });
}

}  // namespace

int ctrlab_store_open(const char* path, int64_t row_bytes, int64_t segment_bytes, int64_t write_buffer, int64_t compaction,
                      int64_t direct, int64_t* store, StoreProblem* problem) {
  return Guarded(problem, [&] {
    StoreOptions options;
    options.path = path, options.row_bytes = row_bytes, options.segment_bytes = segment_bytes;
    options.write_buffer = write_buffer, options.compaction = static_cast<Compaction>(compaction), options.direct = direct != 0;
    std::unique_ptr<SegmentStore> opened;
    Status status = SegmentStore::Open(options, &opened);
    *store = opened ? Stores().Add(std::move(opened)) : 0;
    return status;
  });
}

void ctrlab_store_close(int64_t store) {
  Quietly([&] { Stores().Close(store); });
}

int ctrlab_store_put(int64_t store, const int64_t* keys, const void* rows, int64_t count, StoreProblem* problem) {
  return OnStore(store, problem, [&](SegmentStore& s) { return Relieved(s, s.Put(keys, rows, count)); });
}

int ctrlab_store_get(int64_t store, const int64_t* keys, int64_t count, void* rows, uint8_t* found, StoreProblem* problem) {
  return OnStore(store, problem, [&](SegmentStore& s) { return s.Get(keys, count, rows, found, kAlone); });
}

int ctrlab_store_erase(int64_t store, const int64_t* keys, int64_t count, StoreProblem* problem) {
  return OnStore(store, problem, [&](SegmentStore& s) { return Relieved(s, s.Erase(keys, count)); });
}

int ctrlab_store_flush(int64_t store, StoreProblem* problem) {
  return OnStore(store, problem, [&](SegmentStore& s) { return s.Flush(); });
}

int ctrlab_store_compact(int64_t store, StoreProblem* problem) {
  return OnStore(store, problem, [&](SegmentStore& s) { return s.Compact(); });
}

int ctrlab_store_stats(int64_t store, StoreNumbers* numbers, StoreProblem* problem) {
  return OnStore(store, problem, [&](SegmentStore& opened) {
    const StoreStats s = opened.Stats();
    *numbers = {s.live,        s.total, s.segments,        s.disk_bytes,    s.memory_bytes, s.user_bytes, s.compaction_bytes,
                s.compactions, s.reads, s.dropped_records, s.pending_bytes, s.compacting};
    return Status();
  });
}

int ctrlab_store_warning(int64_t store, int64_t index, StoreProblem* sentence, StoreProblem* problem) {
  return OnStore(store, problem, [&](SegmentStore& s) {
    const std::vector<std::string> warnings = s.Warnings();
    std::snprintf(sentence->sentence, sizeof sentence->sentence, "%s",
                  index < std::ssize(warnings) ? warnings[index].c_str() : "");
    return Status();
  });
}

int ctrlab_store_snapshot(int64_t store, int64_t* snapshot, int64_t* size, StoreProblem* problem) {
  return OnStore(store, problem, [&](SegmentStore& s) {
    std::unique_ptr<StoreSnapshot> made;
    Status status = s.Snapshot(&made);
    *size = made ? made->size() : 0;
    *snapshot = made ? Snapshots().Add(std::move(made)) : 0;
    return status;
  });
}

int ctrlab_store_next(int64_t snapshot, int64_t limit, int64_t* keys, void* rows, int64_t* count, StoreProblem* problem) {
  return Guarded(problem,
                 [&] { return Snapshots().With(snapshot, [&](StoreSnapshot& s) { return s.Next(limit, keys, rows, count); }); });
}

void ctrlab_store_release(int64_t snapshot) {
  Quietly([&] { Snapshots().Close(snapshot); });
}
