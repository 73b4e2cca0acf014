// Reading and writing of whole files, with the system's reason in errors.

#pragma once

#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "store/status.h"

namespace ctrlab::embedding {

// "Sentence: why the system refused."
Status SystemError(const std::string& sentence);

// A file descriptor that is closed on destruction; negative if none is open.
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

// Reads exactly `bytes` bytes; a file that is too short is an error.
Status ReadFully(int fd, const std::string& path, char* to, int64_t bytes, int64_t offset);
// Writes all bytes. If `from`, `bytes` and `offset` are multiples of a block, so is every partial write.
Status WriteFully(int fd, const std::string& path, const char* from, int64_t bytes, int64_t offset);

// Writes a new file, which replaces one of the same name. On success its bytes are durable; its name is durable after the folder
// is synced: SyncFolder.
Status WriteFile(const std::string& path, std::string_view bytes);

}  // namespace ctrlab::embedding
