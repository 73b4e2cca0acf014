// Handles (numbers) for objects behind a C interface. The handle of a closed object is refused, and no object is closed during a
// call.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>

#include "store/process.h"
#include "store/status.h"

namespace ctrlab::embedding {

template <class T>
class Handles {
 public:
  // `closed`: the sentence for a number that is not, or no longer, a handle.
  explicit Handles(std::string closed) : closed_(std::move(closed)) {}

  int64_t Add(std::unique_ptr<T> object) {
    auto opened = std::make_shared<Opened>();
    opened->object = std::move(object);
    std::lock_guard lock(mutex_);
    opened_.emplace(next_, std::move(opened));
    return next_++;
  }

  template <class Call>
  Status With(int64_t number, const Call& call) {
    const std::shared_ptr<Opened> opened = Find(number, false);
    if (!opened) return Status(closed_);
    if (!opened->process.Here()) return opened->process.Refusal();
    std::shared_lock inside(opened->inside);
    return opened->object ? call(*opened->object) : Status(closed_);
  }

  // Waits for calls in progress; does nothing if it is closed already.
  void Close(int64_t number) {
    const std::shared_ptr<Opened> opened = Find(number, true);
    if (!opened) return;
    if (!opened->process.Here()) return opened->object = nullptr, void();  // a fork has no other threads inside
    std::unique_lock alone(opened->inside);
    opened->object = nullptr;
  }

 private:
  struct Opened {
    const OwnProcess process;
    std::shared_mutex inside;
    std::unique_ptr<T> object;
  };

  std::shared_ptr<Opened> Find(int64_t number, bool take) {
    std::lock_guard lock(mutex_);
    const auto found = opened_.find(number);
    if (found == opened_.end()) return nullptr;
    std::shared_ptr<Opened> opened = found->second;
    if (take) opened_.erase(found);
    return opened;
  }

  const std::string closed_;
  std::mutex& mutex_ = FreeInChild<Handles>();
  std::map<int64_t, std::shared_ptr<Opened>> opened_;
  int64_t next_ = 1;
};

}  // namespace ctrlab::embedding
