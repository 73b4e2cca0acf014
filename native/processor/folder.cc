#include "processor/folder.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <numeric>
#include <system_error>

#include "processor/servable.h"

namespace ctrlab::processor {

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
    files.push_back(each->path().string() + " " + std::to_string(about.st_ino) + " " + std::to_string(about.st_size) + " " +
                    std::to_string(about.st_mtim.tv_sec) + "." + std::to_string(about.st_mtim.tv_nsec) + "\n");
  }
  std::sort(files.begin(), files.end());
  return std::accumulate(files.begin(), files.end(), std::string());
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
  if (!listed) return versions;
  struct stat about;
  while (const dirent* const entry = readdir(listed)) {
    const int64_t number = NumberOf(entry->d_name);
    if (number > 0 && stat((folder + "/" + entry->d_name + "/" + kManifest).c_str(), &about) == 0) versions.push_back(number);
  }
  closedir(listed);
  std::sort(versions.begin(), versions.end(), std::greater<>());
  return versions;
}

}  // namespace ctrlab::processor
