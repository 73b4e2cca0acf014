#include "store/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <vector>

#include "store/files.h"

namespace ctrlab::embedding {

namespace {

// The files of this process's locks. A flock is released when the last descriptor of the file is closed. A forked child inherits
// the descriptors and closes them at once; otherwise the parent's lock would live as long as the child.
class Locks {
 public:
  static Locks& OfProcess() {
    static Locks* const locks = new Locks;
    return *locks;
  }

  // Excludes forks meanwhile, so that a child knows every descriptor.
  template <class Open>
  int Add(const Open& open) {
    std::lock_guard lock(mutex_);
    files_.reserve(files_.size() + 1);
    const int fd = open();
    if (fd >= 0) files_.push_back(fd);
    return fd;
  }

  // Does nothing in a child, which has closed it already.
  void Close(int fd) {
    std::lock_guard lock(mutex_);
    if (!std::erase(files_, fd)) return;
    flock(fd, LOCK_UN);  // also releases it in a child that was just forked and has not run yet
    close(fd);
  }

 private:
  Locks() {
    pthread_atfork([] { OfProcess().mutex_.lock(); }, [] { OfProcess().mutex_.unlock(); },
                   [] {
                     for (const int fd : OfProcess().files_) close(fd);
                     OfProcess().files_.clear();
                     OfProcess().mutex_.unlock();
                   });
  }

  std::mutex mutex_;
  std::vector<int> files_;
};

std::filesystem::path Above(const std::string& folder) {
  const std::filesystem::path whole = std::filesystem::absolute(folder).lexically_normal();
  return whole.has_filename() ? whole.parent_path() : whole.parent_path().parent_path();
}

}  // namespace

Status SyncFolder(const std::string& folder) {
  const OwnedFile names(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return names.fd() >= 0 && fsync(names.fd()) == 0 ? Status() : SystemError("Can't sync the folder " + folder);
}

Status NamesIn(const std::string& folder, std::vector<std::string>* names) {
  // Not std::filesystem's iterator, which terminates the process if memory for a name runs out.
  const std::unique_ptr<DIR, int (*)(DIR*)> opened(opendir(folder.c_str()), closedir);
  for (const dirent* file = nullptr; opened && (errno = 0, file = readdir(opened.get()));) {
    if (const std::string name = file->d_name; name != "." && name != "..") names->push_back(name);
  }
  return errno == 0 ? Status() : SystemError("Can't read the store's folder " + folder);
}

Status MakeFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? Status("Can't make the store's folder " + folder + ": " + error.message() + ".") : Status();
}

Status SyncNameOf(const std::string& folder) {
  struct stat here, above;
  if (stat(folder.c_str(), &here) != 0) return SystemError("Can't find the folder " + folder);
  for (std::filesystem::path at = Above(folder);; at = at.parent_path()) {
    if (stat(at.c_str(), &above) != 0 || above.st_dev != here.st_dev) return Status();
    if (access(at.c_str(), R_OK) == 0) {
      if (Status status = SyncFolder(at); !status.ok()) return status;
    }
    if (at == at.parent_path()) return Status();
  }
}

Status FolderLock::Take(const std::string& folder, std::unique_ptr<FolderLock>* lock) {
  std::unique_ptr<FolderLock> taken(new FolderLock);
  bool opened = false;
  taken->fd_ = Locks::OfProcess().Add([&] {
    const int fd = open((folder + "/LOCK").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    opened = fd >= 0;
    if (!opened || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
  });
  if (!opened) return SystemError("Can't open the store in " + folder);
  if (taken->fd_ >= 0) return *lock = std::move(taken), Status();
  return errno == EWOULDBLOCK ? Status("One process at a time may use a store; another one has that in " + folder + " open.")
                              : SystemError("Can't lock the store in " + folder);
}

FolderLock::~FolderLock() { Locks::OfProcess().Close(fd_); }

}  // namespace ctrlab::embedding
