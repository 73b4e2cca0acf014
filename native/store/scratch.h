// Stores that live only as long as their user: they hold the rows below a table's memory.

#pragma once

#include <functional>
#include <memory>

#include "store/segment_store.h"

namespace ctrlab::embedding {

// Opens a new, empty store for rows of `row_bytes` bytes.
using OpenStore = std::function<Status(int64_t row_bytes, std::unique_ptr<SegmentStore>* store)>;

// Makes stores with these options in `options.path`, each new, empty, and in its own numbered folder, so that a store and its
// replacement can be open at once. Their files are deleted with them. They are never synced, and other processes never read them.
//
// The first store takes the lock of the folder, and all of them hold it: one table at a time may use the folder. A thread removes
// what earlier tables left, without reading it. The file TIER marks folders that tables use. A folder with files that no table
// made is refused and left unchanged. Files that others add later stay too, unless their names are those of a store's files.
OpenStore StoresIn(StoreOptions options);

}  // namespace ctrlab::embedding
