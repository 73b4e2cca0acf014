// A folder of one process's: made so that its name outlives a loss of power, and locked.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/status.h"

namespace ctrlab::embedding {

// New and removed names in it outlive a loss of power when this returns.
Status SyncFolder(const std::string& folder);

// All that is in it, without the names of itself and of what is above it.
Status NamesIn(const std::string& folder, std::vector<std::string>* names);

// Makes it, and what is missing above it.
Status MakeFolder(const std::string& folder);

// Its name, and those of the folders above it in its file system, outlive a loss of power when this returns, but for one in a
// folder that may not be read.
Status SyncNameOf(const std::string& folder);

// The lock of a folder, in its file LOCK. It goes with the process that took it, however that ends: a child that is forked does
// not hold it.
class FolderLock {
 public:
  static Status Take(const std::string& folder, std::unique_ptr<FolderLock>* lock);
  ~FolderLock();

 private:
  FolderLock() = default;

  int fd_ = -1;
};

}  // namespace ctrlab::embedding
