// The keys that a worker requests from the owners of rows: the distinct keys of its columns, each once, ordered by owner and then
// by table.
//
//   dense table      row r     worker r mod W, which knows it as its row r div W
//   growing table    key       worker hash(key) mod W
//
// Shapes: C columns of T tables, n ids in all, u distinct keys, W workers.
// The caller has checked that ids of dense tables are at least -1, which is "unknown": nobody is asked for it.

#pragma once

#include "kernels/abi.h"

namespace ctrlab {

struct AskedColumn {
  const int64_t* ids;  // [count]
  int64_t count;
  int64_t table;
  int64_t* places;  // out, [count]: for each id the place of its key in `AskedKeys`, or -1
};

struct AskedKeys {
  int64_t* keys;    // [n] allocated, [count] used: each key as its owner knows it
  int64_t* times;   // [n] allocated, [count] used: the number of ids with this key
  int32_t* counts;  // [W, T]: the number of keys of each table that each worker is asked for
  int64_t count;    // u
};

}  // namespace ctrlab

// Keys of one owner and table come in the order in which they first came in the columns. The columns of a table lie one after the
// other. `grows`: whether the tables grow; all of them do, or none.
CTRLAB_EXPORT void ctrlab_asked_keys(const ctrlab::AskedColumn* columns, int64_t column_count, int64_t tables, int64_t workers,
                                     bool grows, ctrlab::AskedKeys* asked, const ctrlab::ParallelFor* parallel_for);
