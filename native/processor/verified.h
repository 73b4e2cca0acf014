// Checks that a version's files are as they were exported, before anything else reads them: TensorFlow ends the process at some
// damaged graphs. The rules are those of `ctrlab.serving.verify`.

#pragma once

#include <string>
#include <string_view>

#include "processor/inputs.h"

namespace ctrlab::processor {

// Checks every file of a version's folder against its manifest, and the manifest against its own checksum. A manifest of format 1
// has none of its own. Refused with kFailed if a file is missing, damaged, or not in the manifest; with kUnavailable if an error of
// the moment kept a file from being read.
Answer Verify(const std::string& folder);

// The first digits of the SHA-256 of a version's manifest, which tell versions apart. Refused if it can't be read.
Answer SealOf(const std::string& folder, std::string* seal);

// Whether an error may pass without a change of the file: too little memory, too many open files, a disk that is full or fails.
bool IsOfTheMoment(int error);
// The same of a sentence, which ends with what the system says of the error.
bool IsOfTheMoment(std::string_view sentence);

}  // namespace ctrlab::processor
