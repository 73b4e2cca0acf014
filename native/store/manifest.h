// The file MANIFEST of a store: the list of segments that must exist. segment_format.h defines its bytes.
//
// A new manifest is written next to the old one and renamed when it is durable, so there is always a complete one. A segment is
// made before it is listed, and removed from the list before its file is deleted. So after a crash there may be extra files, but
// never a missing one.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/status.h"

namespace ctrlab::embedding {

struct Manifest {
  uint64_t next = 1;               // segments with this number or higher may have been made since
  uint64_t durable = 0;            // users' writes up to this sequence number were durable
  std::vector<uint64_t> segments;  // numbers, ascending
};

// *there is false if the folder has no manifest.
Status ReadManifest(const std::string& folder, bool* there, Manifest* manifest);

// On success, the manifest and all names in the folder survive a loss of power.
Status WriteManifest(const std::string& folder, const Manifest& manifest);

}  // namespace ctrlab::embedding
