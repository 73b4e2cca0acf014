// The C interface of the store, for ctrlab/embedding/store/native.py. Every call returns 0, or 1 with a sentence in `problem`.

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

// `store` and `snapshot` are handles for the other calls. Any thread may close one at any time; closing it twice, or closing 0,
// does nothing. Calls in progress finish first, later ones are refused. A snapshot outlives its store. A forked child is refused
// too.
CTRLAB_EXPORT int ctrlab_store_open(const char* path, int64_t row_bytes, int64_t segment_bytes, int64_t write_buffer,
                                    int64_t compaction, int64_t direct, int64_t* store, ctrlab::embedding::StoreProblem* problem);
CTRLAB_EXPORT void ctrlab_store_close(int64_t store);
CTRLAB_EXPORT int ctrlab_store_put(int64_t store, const int64_t* keys, const void* rows, int64_t count,
                                   ctrlab::embedding::StoreProblem* problem);
CTRLAB_EXPORT int ctrlab_store_get(int64_t store, const int64_t* keys, int64_t count, void* rows, uint8_t* found,
                                   ctrlab::embedding::StoreProblem* problem);
CTRLAB_EXPORT int ctrlab_store_erase(int64_t store, const int64_t* keys, int64_t count, ctrlab::embedding::StoreProblem* problem);
CTRLAB_EXPORT int ctrlab_store_flush(int64_t store, ctrlab::embedding::StoreProblem* problem);
CTRLAB_EXPORT int ctrlab_store_compact(int64_t store, ctrlab::embedding::StoreProblem* problem);
CTRLAB_EXPORT int ctrlab_store_stats(int64_t store, ctrlab::embedding::StoreNumbers* numbers,
                                     ctrlab::embedding::StoreProblem* problem);
// Warning number `index`; empty after the last one.
CTRLAB_EXPORT int ctrlab_store_warning(int64_t store, int64_t index, ctrlab::embedding::StoreProblem* sentence,
                                       ctrlab::embedding::StoreProblem* problem);
CTRLAB_EXPORT int ctrlab_store_snapshot(int64_t store, int64_t* snapshot, int64_t* size,
                                        ctrlab::embedding::StoreProblem* problem);
CTRLAB_EXPORT int ctrlab_store_next(int64_t snapshot, int64_t limit, int64_t* keys, void* rows, int64_t* count,
                                    ctrlab::embedding::StoreProblem* problem);
CTRLAB_EXPORT void ctrlab_store_release(int64_t snapshot);
