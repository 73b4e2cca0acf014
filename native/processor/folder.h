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
// The versions in a folder that have a manifest, the newest first; none if there is no such folder. Throws std::system_error if the
// folder can't be read to its end, because then some versions would seem to be gone.
std::vector<int64_t> VersionsIn(const std::string& folder);
// A text with the content of a version's manifest, and each of its files with its size and the times of its last changes. It
// differs if the version was replaced: also by files of the same sizes and times, because their checksums are in the manifest.
// Throws std::system_error if the folder can't be read.
std::string FilesIn(const std::string& folder);
// One sentence about a name in the folder that looks like a version's and is none, with a blank before it; or "".
std::string OddNameIn(const std::string& folder);

}  // namespace ctrlab::processor
