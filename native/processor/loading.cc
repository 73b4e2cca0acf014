#include "processor/loading.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <vector>

#include "store/files.h"

namespace ctrlab::processor {

namespace {

constexpr time_t kShortestWait = 60, kLongestWait = 24 * 60 * 60, kGrowth = 9;
// As exports name what they have not finished, so that the next export deletes what a kill has left.
constexpr const char* kPart = "/.version-loading-XXXXXX";

std::string NameOf(int64_t version, const std::string& seal) {
  return ".ctrlab-loading-" + std::to_string(version) + "-" + seal + "-";
}

std::string TemporaryFolder() {
  std::error_code none;
  return std::filesystem::temp_directory_path(none).string();
}

// Calls left(path, time) for each mark that a process left when it ended. In the folder for temporary files those of other users
// do not count.
template <class Left>
void EachLeft(const std::string& folder, const std::string& name, const Left& left) {
  const std::string temporary = TemporaryFolder();
  for (const std::string& place : {folder, temporary}) {
    DIR* const listed = opendir(place.c_str());
    if (!listed) continue;
    std::vector<std::string> found;
    while (const dirent* const entry = readdir(listed)) {
      const std::string each = entry->d_name;
      if (each.starts_with(name)) found.push_back(place + "/" + each);
    }
    closedir(listed);
    for (const std::string& path : found) {
      const embedding::OwnedFile mark(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
      struct stat about;
      if (mark.fd() < 0 || fstat(mark.fd(), &about) != 0 || (place == temporary && about.st_uid != geteuid())) continue;
      if (flock(mark.fd(), LOCK_EX | LOCK_NB) == 0) left(path, about.st_mtim.tv_sec);
    }
  }
}

}  // namespace

Answer LoadingMark::Require(const std::string& folder, int64_t version, const std::string& seal) {
  const time_t now = std::time(nullptr);
  time_t first = now, last = 0;
  std::string path;
  EachLeft(folder, NameOf(version, seal), [&](const std::string& mark, time_t time) {
    if (time > now) return;  // the clock was set back
    first = std::min(first, time);
    if (time >= last) path = mark;
    last = std::max(last, time);
  });
  const time_t again = last + std::clamp(kGrowth * (last - first), kShortestWait, kLongestWait);
  if (path.empty() || now >= again) return {};
  char text[32];
  struct tm utc;
  std::strftime(text, sizeof text, "%FT%TZ", gmtime_r(&again, &utc));
  return Refusal(Code::kUnavailable, "A process ended while it loaded version ", folder, "/", version, ": it is tried again at ",
                 text, ", when its files change, or when ", path, " is deleted.");
}

LoadingMark::LoadingMark(const std::string& folder, int64_t version, const std::string& seal)
    : folder_(folder), name_(NameOf(version, seal)) {
  for (const std::string& place : {folder, TemporaryFolder()}) {
    std::string part = place + kPart;
    fd_ = mkostemp(part.data(), O_CLOEXEC);
    if (fd_ < 0) continue;
    path_ = place + "/" + name_ + part.substr(part.size() - 6);
    // Other users' servers look whether the lock is held. A mark appears with its lock.
    if (fchmod(fd_, 0644) == 0 && flock(fd_, LOCK_EX | LOCK_NB) == 0 && rename(part.c_str(), path_.c_str()) == 0) return;
    unlink(part.c_str());
    close(fd_);
    fd_ = -1;
  }
}

LoadingMark::~LoadingMark() {
  if (fd_ < 0) return;
  unlink(path_.c_str());
  close(fd_);
  EachLeft(folder_, name_, [](const std::string& mark, time_t) { unlink(mark.c_str()); });
}

}  // namespace ctrlab::processor
