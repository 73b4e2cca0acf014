// Marks of versions that are being loaded. A process that ends while it loads a version leaves its mark, and the next one does not
// try that version at once, however it ended: the version may have ended it, and would end the next one, too.
//
// A mark is an empty file, .ctrlab-loading-<version>-<seal>-<random>, in the model's folder; or in the folder for temporary files if
// the model's can't be written. Its process holds a lock on it, so a mark without a lock is one of a process that ended. As the
// process may have ended for another reason, such as a kill for want of memory, no mark condemns a version for ever: after a minute
// the version is tried again, and after each further end ten times as long since the first one, at most a day. A version of other
// files is another one, and a version that was loaded loses its marks. A SIGTERM for which the program has no handler of its own
// takes the mark away: a server that is stopped while it begins says nothing of the version.

#pragma once

#include <cstdint>
#include <string>

#include "processor/inputs.h"

namespace ctrlab::processor {

class LoadingMark {
 public:
  // Refused with kUnavailable while the version must not be tried.
  static Answer Require(const std::string& folder, int64_t version, const std::string& seal);

  // Marks a version. Without a place that can be written there is no mark.
  LoadingMark(const std::string& folder, int64_t version, const std::string& seal);
  // The version did not end this process: takes away this mark, and those of processes that ended.
  ~LoadingMark();
  LoadingMark(const LoadingMark&) = delete;
  LoadingMark& operator=(const LoadingMark&) = delete;

 private:
  const std::string folder_, name_;  // the name's begin
  std::string path_;
  int fd_ = -1;
};

}  // namespace ctrlab::processor
