// What a process may share with a child that it forks, and what it must not: the child has a copy of everything, but of the
// threads only the one that forked, so that a lock which another one held is never given back.

#pragma once

#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <string>

#include "store/status.h"

namespace ctrlab::embedding {

// The process that made this.
class OwnProcess {
 public:
  bool Here() const { return getpid() == process_; }
  Status Refusal() const {
    return Status("A store belongs to the process that opened it, " + std::to_string(process_) + "; process " +
                  std::to_string(getpid()) + " was forked from that and must open a store of its own.");
  }

 private:
  const pid_t process_ = getpid();
};

// A mutex that a child finds free. There is one for each `Of`, since a handler of forks is there for ever.
template <class Of>
std::mutex& FreeInChild() {
  static std::mutex* const mutex = [] {
    static std::mutex one;
    pthread_atfork([] { one.lock(); }, [] { one.unlock(); }, [] { one.unlock(); });
    return &one;
  }();
  return *mutex;
}

}  // namespace ctrlab::embedding
