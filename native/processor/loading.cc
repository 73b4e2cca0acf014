#include "processor/loading.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <system_error>
#include <vector>

#include "store/files.h"

namespace ctrlab::processor {

namespace {

constexpr time_t kShortestWait = 60, kLongestWait = 24 * 60 * 60, kGrowth = 9;
// As exports name what they have not finished, so that the next export deletes what a kill has left.
constexpr const char* kPart = "/.version-loading-XXXXXX";

// The paths of this process's marks, for the handler of SIGTERM.
constexpr size_t kMostMarks = 64;
std::atomic<const char*> held[kMostMarks];

void OnTerm(int number) {
  for (const auto& path : held) {
    if (const char* const mark = path.load()) unlink(mark);
  }
  signal(number, SIG_DFL);
  raise(number);
}

// Puts `to` in the place of `from` among `held`. The handler is there while there are marks, if the program has none.
void Replace(const char* from, const char* to) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto is = [](const char* path) { return [path](const auto& each) { return each.load() == path; }; };
  if (const auto at = std::find_if(std::begin(held), std::end(held), is(from)); at != std::end(held)) at->store(to);
  const bool none = std::all_of(std::begin(held), std::end(held), is(nullptr));
  struct sigaction there;
  if (sigaction(SIGTERM, nullptr, &there) != 0 || (there.sa_flags & SA_SIGINFO)) return;
  if (there.sa_handler == (none ? OnTerm : SIG_DFL)) signal(SIGTERM, none ? SIG_DFL : OnTerm);
}

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
    const std::unique_ptr<DIR, int (*)(DIR*)> listed(opendir(place.c_str()), closedir);
    if (!listed) continue;
    std::vector<std::string> found;
    while (const dirent* const entry = readdir(listed.get())) {
      const std::string each = entry->d_name;
      if (each.starts_with(name)) found.push_back(place + "/" + each);
    }
    for (const std::string& path : found) {
      const embedding::OwnedFile mark(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
      struct stat about;
      if (mark.fd() < 0 || fstat(mark.fd(), &about) != 0 || (place == temporary && about.st_uid != geteuid())) continue;
      // Shared: others that look are no process that loads.
      if (flock(mark.fd(), LOCK_SH | LOCK_NB) == 0) left(path, about.st_mtim.tv_sec);
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
    Replace(nullptr, path_.c_str());
    // Other users' servers look whether the lock is held. A mark appears with its lock.
    if (fchmod(fd_, 0644) == 0 && flock(fd_, LOCK_EX | LOCK_NB) == 0 && rename(part.c_str(), path_.c_str()) == 0) return;
    Replace(path_.c_str(), nullptr);
    unlink(part.c_str());
    close(fd_);
    fd_ = -1;
  }
}

LoadingMark::~LoadingMark() {
  if (fd_ < 0) return;
  Replace(path_.c_str(), nullptr);
  unlink(path_.c_str());
  close(fd_);
  try {
    EachLeft(folder_, name_, [](const std::string& mark, time_t) { unlink(mark.c_str()); });
  } catch (const std::exception&) {  // no memory is left: the next load deletes them
  }
}

}  // namespace ctrlab::processor
