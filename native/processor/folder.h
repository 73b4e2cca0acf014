// Reads a model's folder: which versions it holds, and from which files a version can be seen to have changed.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ctrlab::processor {

// The version number that a name spells, or -1. As in TensorFlow Serving, versions are numbered from 1, without leading zeros.
int64_t NumberOf(const std::string& name);
// The largest version number among the names in a folder, or -1.
int64_t LargestNumberIn(const std::string& folder);
// The versions in a folder that have a manifest, the newest first.
std::vector<int64_t> VersionsIn(const std::string& folder);
// A text with each file of a folder, its size, and when it was written; it differs if a file changed.
std::string FilesIn(const std::string& folder);

}  // namespace ctrlab::processor
