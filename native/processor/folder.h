// What a model's folder holds: versions, and files that say whether a version is another one now.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ctrlab::processor {

// The number that a name is, or -1. As TensorFlow Serving's, versions are numbered from 1, without leading zeros.
int64_t NumberOf(const std::string& name);
// Of the names in a folder, or -1.
int64_t LargestNumberIn(const std::string& folder);
// Those that have a manifest, the newest first.
std::vector<int64_t> VersionsIn(const std::string& folder);
// Each file of a folder, its size, and when it was written.
std::string FilesIn(const std::string& folder);

}  // namespace ctrlab::processor
