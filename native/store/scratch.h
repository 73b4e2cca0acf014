// Stores that live no longer than who opened them: where the rows below a table's memory lie.

#pragma once

#include <functional>
#include <memory>

#include "store/segment_store.h"

namespace ctrlab::embedding {

// Opens a store for rows of so many bytes: a new one, empty, each time.
using OpenStore = std::function<Status(int64_t row_bytes, std::unique_ptr<SegmentStore>* store)>;

// Stores with these options in `options.path`, each new and empty, in a numbered folder of its own: one that lives and one that
// is to take its place may be open at once. Their files go with them; they are never synced, and never read by another process.
//
// The first store that opens takes the lock of the folder, which all of them hold: one table at a time may use it. What earlier
// tables left is removed without a look into it, in a thread. A folder with anything in it that no table made is refused, and
// stays as it is: the file TIER marks those that tables use. What others put there meanwhile stays, too, unless it is named like
// a store's files.
OpenStore StoresIn(StoreOptions options);

}  // namespace ctrlab::embedding
