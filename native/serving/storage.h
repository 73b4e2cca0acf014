// A folder for the rows of a bundle that do not fit into memory: in the system's folder for temporary files, of this process alone.

#pragma once

#include <memory>
#include <string>

#include "store/folder.h"
#include "store/status.h"

namespace ctrlab::serving {

class Storage {
 public:
  // Takes the first folder of this user, TMPDIR/ctrlab-serving-<user>/<number>, that no process uses. Rows that a killed process
  // left in it are deleted when a table uses it again.
  static embedding::Status Take(std::unique_ptr<Storage>* storage);

  // The folder of a table.
  std::string Of(int64_t table) const { return path_ + "/" + std::to_string(table); }

 private:
  Storage(std::string path, std::unique_ptr<embedding::FolderLock> lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  const std::string path_;
  const std::unique_ptr<embedding::FolderLock> lock_;
};

}  // namespace ctrlab::serving
