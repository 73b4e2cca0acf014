// The store behind a C interface, for ctrlab/embedding/store.py. Every call returns 0, or 1 with one sentence in `problem`.

#pragma once

#include "kernels/abi.h"

namespace ctrlab::embedding {

struct StoreProblem {
  char sentence[2048];
};

struct StoreNumbers {
  int64_t live, total, segments, disk_bytes, memory_bytes, user_bytes, compaction_bytes, compactions, reads, dropped_records,
      pending_bytes, compacting;
};

}  // namespace ctrlab::embedding

// `store` and `snapshot` are handles to be given to the other calls; each is closed once, and null may be closed.
CTRLAB_EXPORT int ctrlab_store_open(const char* path, int64_t row_bytes, int64_t segment_bytes, int64_t write_buffer,
                                    int64_t compaction, int64_t direct, void** store, ctrlab::embedding::StoreProblem* problem);
CTRLAB_EXPORT void ctrlab_store_close(void* store);
CTRLAB_EXPORT int ctrlab_store_put(void* store, const int64_t* keys, const void* rows, int64_t count,
                                   ctrlab::embedding::StoreProblem* problem);
CTRLAB_EXPORT int ctrlab_store_get(void* store, const int64_t* keys, int64_t count, void* rows, uint8_t* found,
                                   ctrlab::embedding::StoreProblem* problem);
CTRLAB_EXPORT int ctrlab_store_erase(void* store, const int64_t* keys, int64_t count, ctrlab::embedding::StoreProblem* problem);
CTRLAB_EXPORT int ctrlab_store_flush(void* store, ctrlab::embedding::StoreProblem* problem);
CTRLAB_EXPORT int ctrlab_store_compact(void* store, ctrlab::embedding::StoreProblem* problem);
CTRLAB_EXPORT void ctrlab_store_stats(void* store, ctrlab::embedding::StoreNumbers* numbers);
// Warning number `index` as the problem; 1 where there are no more.
CTRLAB_EXPORT int ctrlab_store_warning(void* store, int64_t index, ctrlab::embedding::StoreProblem* sentence);
CTRLAB_EXPORT int ctrlab_store_snapshot(void* store, void** snapshot, int64_t* size, ctrlab::embedding::StoreProblem* problem);
CTRLAB_EXPORT int ctrlab_store_next(void* snapshot, int64_t limit, int64_t* keys, void* rows, int64_t* count,
                                    ctrlab::embedding::StoreProblem* problem);
CTRLAB_EXPORT void ctrlab_store_release(void* snapshot);
