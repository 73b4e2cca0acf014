// A thread that does one thing whenever it is woken. It is joined when this goes.

#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ctrlab::embedding {

class Worker {
 public:
  // Whether it could do its work; it returns soon after `stop` is true.
  using Work = std::function<bool(const std::atomic<bool>& stop)>;

  // Throws std::system_error where the system has no thread to give.
  Worker(const char* name, Work work) : work_(std::move(work)), thread_([this] { Run(); }) {
    pthread_setname_np(thread_.native_handle(), name);
  }

  ~Worker() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
      wake_.notify_one();
    }
    thread_.join();
  }

  void Wake() {
    std::lock_guard lock(mutex_);
    wanted_ = true;
    wake_.notify_one();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return wanted_ || stop_; });
      if (stop_) return;
      wanted_ = false;
      lock.unlock();
      const bool done = work_(stop_);
      lock.lock();
      // What refused may refuse for long: it is not asked again whenever somebody wakes this.
      if (!done) wake_.wait_for(lock, std::chrono::seconds(1), [&] { return stop_.load(); });
    }
  }

  const Work work_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool wanted_ = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_;  // the last, for it uses all above
};

}  // namespace ctrlab::embedding
