#include "store/files.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "store/segment_format.h"

namespace ctrlab::embedding {

Status SystemError(const std::string& sentence) { return Status(sentence + ": " + std::strerror(errno) + "."); }

Status ReadFully(int fd, const std::string& path, char* to, int64_t bytes, int64_t offset) {
  while (bytes > 0) {
    const ssize_t n = pread(fd, to, bytes, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("Can't read " + path);
    if (n == 0) return Status(path + " ends at byte " + std::to_string(offset) + ", where there must be more; was it cut off?");
    to += n, offset += n, bytes -= n;
  }
  return Status();
}

Status WriteFully(int fd, const std::string& path, const char* from, int64_t bytes, int64_t offset) {
  while (bytes > 0) {
    const int64_t wanted = std::min(bytes, kPiece);
    const ssize_t n = pwrite(fd, from, wanted, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("Can't write to " + path);
    // After a short write only whole blocks count, so that the next write starts at a block.
    const int64_t whole = n == wanted ? n : BlockFloor(n);
    if (whole == 0) return Status("Can't write to " + path + ": the disk took less than a block.");
    from += whole, offset += whole, bytes -= whole;
  }
  return Status();
}

Status WriteFile(const std::string& path, std::string_view bytes) {
  unlink(path.c_str());  // the sync was refused: the system may later report its bytes as written
  const OwnedFile file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (file.fd() < 0) return SystemError("Can't write " + path);
  if (Status status = WriteFully(file.fd(), path, bytes.data(), std::ssize(bytes), 0); !status.ok()) return status;
  return fsync(file.fd()) == 0 ? Status() : SystemError("Can't sync " + path);
}

}  // namespace ctrlab::embedding
