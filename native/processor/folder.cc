#include "processor/folder.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <system_error>

#include "processor/servable.h"

namespace ctrlab::processor {

namespace {

// Whether a system call's error says that a file is not there. Any other may pass, and says nothing of it.
bool IsGone(int error) { return error == ENOENT || error == ENOTDIR; }

}  // namespace

int64_t NumberOf(const std::string& name) {
  int64_t number = -1;
  const char* const end = name.data() + name.size();
  const auto read = std::from_chars(name.data(), end, number);
  return read.ec == std::errc() && read.ptr == end && name[0] >= '1' ? number : -1;
}

std::string FilesIn(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code gone;
  for (auto each = std::filesystem::recursive_directory_iterator(folder, gone);
       !gone && each != std::filesystem::recursive_directory_iterator(); each.increment(gone)) {
    struct stat about;
    if (stat(each->path().c_str(), &about) != 0) continue;
    std::string file = each->path().string() + " " + std::to_string(about.st_size);
    for (const timespec& time : {about.st_mtim, about.st_ctim}) {  // nobody can set the second one
      file += " " + std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec);
    }
    files.push_back(file + "\n");
  }
  if (gone && !IsGone(gone.value())) throw std::system_error(gone, folder);
  std::sort(files.begin(), files.end());
  std::ifstream manifest(folder + "/" + kManifest, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(manifest), std::istreambuf_iterator<char>()};
  return std::accumulate(files.begin(), files.end(), std::to_string(std::hash<std::string>()(content)) + "\n");
}

int64_t LargestNumberIn(const std::string& folder) {
  int64_t largest = -1;
  DIR* const listed = opendir(folder.c_str());
  if (!listed) return largest;
  while (const dirent* const entry = readdir(listed)) largest = std::max(largest, NumberOf(entry->d_name));
  closedir(listed);
  return largest;
}

std::vector<int64_t> VersionsIn(const std::string& folder) {
  std::vector<int64_t> versions;
  DIR* const listed = opendir(folder.c_str());
  if (!listed && !IsGone(errno)) throw std::system_error(errno, std::generic_category(), folder);
  if (!listed) return versions;
  struct stat about;
  errno = 0;
  while (const dirent* const entry = readdir(listed)) {
    const int64_t number = NumberOf(entry->d_name);
    const std::string manifest = folder + "/" + entry->d_name + "/" + kManifest;
    // One that the disk fails to show is not gone. What is no file, such as a pipe, would never be read to its end.
    if (number > 0 && (stat(manifest.c_str(), &about) == 0 ? S_ISREG(about.st_mode) : !IsGone(errno))) versions.push_back(number);
    errno = 0;
  }
  const int problem = errno;
  closedir(listed);
  if (problem) throw std::system_error(problem, std::generic_category(), folder);
  std::sort(versions.begin(), versions.end(), std::greater<>());
  return versions;
}

std::string OddNameIn(const std::string& folder) {
  std::string odd;
  DIR* const listed = opendir(folder.c_str());
  if (!listed) return odd;
  while (const dirent* const entry = readdir(listed)) {
    const std::string name = entry->d_name;
    if (name.find_first_not_of("0123456789") == std::string::npos && NumberOf(name) < 0 && name > odd) odd = name;
  }
  closedir(listed);
  if (!odd.empty()) odd = " A version's name is a number in [1, 2^63) without leading zeros, and " + odd + " is none: rename it.";
  return odd;
}

}  // namespace ctrlab::processor
