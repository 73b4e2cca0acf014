// The store below a table, in a folder of its own.

#include <filesystem>
#include <fstream>
#include <string>

#include "embedding/messages.h"
#include "embedding/tier.h"

namespace ctrlab::embedding {

Status OpenTierStore(const StoreOptions& options, std::unique_ptr<SegmentStore>* store) {
  const std::string mark = options.path + "/TIER";
  std::unique_ptr<SegmentStore> opened;
  if (Status bad = SegmentStore::Open(options, &opened); !bad.ok()) return bad;
  if (std::error_code error; !std::filesystem::exists(mark, error)) {
    if (const int64_t rows = opened->Stats().live; rows > 0) {
      return Problem("The store in ", options.path, " holds ", rows,
                     " rows that no embedding variable put there, which using it as ",
                     "storage would erase: name another folder.");
    }
    std::ofstream file(mark);
    file << "Rows of an embedding variable, beyond those in memory. They are erased when another one is put here.\n";
    if (!file.flush()) return Problem("Can't write ", mark, ", which marks the storage of an embedding variable.");
  }
  *store = std::move(opened);
  return Status();
}

}  // namespace ctrlab::embedding
