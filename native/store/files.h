// Files that are read and written as a whole, and why the system refused.

#pragma once

#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "store/status.h"

namespace ctrlab::embedding {

// "Sentence: why the system refused."
Status SystemError(const std::string& sentence);

// An open file that closes when it goes; or a negative number.
class OwnedFile {
 public:
  explicit OwnedFile(int fd) : fd_(fd) {}
  ~OwnedFile() {
    if (fd_ >= 0) close(fd_);
  }
  OwnedFile(const OwnedFile&) = delete;
  OwnedFile& operator=(const OwnedFile&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// All of it; what the file does not hold (any more) is an error.
Status ReadFully(int fd, const std::string& path, char* to, int64_t bytes, int64_t offset);
// All of it. Where `from`, `bytes` and `offset` are multiples of a block, so is each part of it that the system takes.
Status WriteFully(int fd, const std::string& path, const char* from, int64_t bytes, int64_t offset);

// A new file of these bytes, in the place of one of that name. Its bytes are on the disk when this returns well, and its name is
// once the folder is synced: SyncFolder.
Status WriteFile(const std::string& path, std::string_view bytes);

}  // namespace ctrlab::embedding
