// Safe sharing of objects with a forked child. The child has a copy of everything, but only the thread that forked. So a lock
// that another thread held is never released in the child.

#pragma once

#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <string>

#include "store/status.h"

namespace ctrlab::embedding {

// Remembers the process that made this object.
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

// A mutex that is free in a forked child. There is one per `Of`, because fork handlers can't be removed.
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
