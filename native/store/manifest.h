// The file MANIFEST of a store: which segments there must be. Its bytes: segment_format.h.
//
// It is written anew, beside the old one, and takes its name when it is on the disk, so there is always a whole one. A segment is
// made before it is listed and leaves the list before its file goes, so a crash leaves files too many, never one too few.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/status.h"

namespace ctrlab::embedding {

struct Manifest {
  uint64_t next = 1;               // higher numbers, and this one, may have become segments since
  uint64_t durable = 0;            // all that users wrote up to this sequence number was on the disk
  std::vector<uint64_t> segments;  // numbers, ascending
};

// *there is false where the folder has none.
Status ReadManifest(const std::string& folder, bool* there, Manifest* manifest);

// When this returns well, it outlives a loss of power, and so do all names in the folder.
Status WriteManifest(const std::string& folder, const Manifest& manifest);

}  // namespace ctrlab::embedding
