#include "serving/storage.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <new>

#include "store/files.h"
#include "table/messages.h"

namespace ctrlab::serving {

using embedding::FolderLock;
using embedding::Problem;
using embedding::Status;

namespace {

constexpr int kMost = 1000;  // bundles with rows on disk, of one user at once

// Others may write into the system's folder, so only a folder of this user's own is used.
Status MakeOwn(const std::string& folder) {
  struct stat about;
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return embedding::SystemError("Can't make the folder " + folder);
  if (lstat(folder.c_str(), &about) != 0) return embedding::SystemError("Can't find the folder " + folder);
  if (S_ISDIR(about.st_mode) && about.st_uid == geteuid()) return Status();
  return Problem("Rows that do not fit into memory lie in a folder of this user; ", folder,
                 " is none: remove it, or name another folder by TMPDIR.");
}

}  // namespace

Status Storage::Take(std::unique_ptr<Storage>* storage) try {
  const char* const temporary = std::getenv("TMPDIR");
  const std::string all =
      (temporary && *temporary ? std::string(temporary) : "/tmp") + "/ctrlab-serving-" + std::to_string(geteuid());
  if (Status bad = MakeOwn(all); !bad.ok()) return bad;
  Status bad;
  for (int number = 0; number < kMost; ++number) {
    const std::string folder = all + "/" + std::to_string(number);
    if (bad = MakeOwn(folder); !bad.ok()) return bad;
    std::unique_ptr<FolderLock> lock;
    if (bad = FolderLock::Take(folder, &lock); !bad.ok()) continue;  // another bundle's
    storage->reset(new Storage(folder, std::move(lock)));
    return Status();
  }
  return bad;
} catch (const std::bad_alloc&) {
  return embedding::OutOfMemory();
}

}  // namespace ctrlab::serving
