// A folder that belongs to one process: its name survives a loss of power, and it is locked.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/status.h"

namespace ctrlab::embedding {

// On return, added and removed names in the folder survive a loss of power.
Status SyncFolder(const std::string& folder);

// All names in it, without "." and "..".
Status NamesIn(const std::string& folder, std::vector<std::string>* names);

// Makes the folder and its missing parents.
Status MakeFolder(const std::string& folder);

// On return, its name and those of its parent folders in the same file system survive a loss of power, except for names in
// folders that can't be read.
Status SyncNameOf(const std::string& folder);

// The lock of a folder, in its file LOCK. The system releases it when the process that took it ends for any reason. A forked
// child does not hold it.
class FolderLock {
 public:
  static Status Take(const std::string& folder, std::unique_ptr<FolderLock>* lock);
  ~FolderLock();

 private:
  FolderLock() = default;

  int fd_ = -1;
};

}  // namespace ctrlab::embedding
