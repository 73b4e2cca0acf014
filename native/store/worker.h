// A thread that runs one function whenever it is woken. The destructor joins it.

#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "store/process.h"

namespace ctrlab::embedding {

class Worker {
 public:
  // Returns whether the work was done; throwing means that it was not. It must return soon after `stop` becomes true.
  using Work = std::function<bool(const std::atomic<bool>& stop)>;

  // Throws std::system_error if the system can't start a thread.
  Worker(const char* name, Work work) : state_(std::make_unique<State>(std::move(work))) {
    pthread_setname_np(state_->thread.native_handle(), name);
  }

  ~Worker() {
    // A forked child does not have the thread, so it must not wait for it or for its lock.
    if (!process_.Here()) {
      (void)state_.release();
      return;
    }
    {
      std::lock_guard lock(state_->mutex);
      state_->stop = true;
      state_->wake.notify_one();
    }
    state_->thread.join();
  }

  void Wake() {
    if (!process_.Here()) return;
    std::lock_guard lock(state_->mutex);
    state_->wanted = true;
    state_->wake.notify_one();
  }

 private:
  struct State {
    explicit State(Work work) : work(std::move(work)), thread([this] { Run(); }) {}

    void Run() {
      std::unique_lock lock(mutex);
      for (;;) {
        wake.wait(lock, [&] { return wanted || stop; });
        if (stop) return;
        wanted = false;
        lock.unlock();
        const bool done = Done();
        lock.lock();
        // A failure may last: wait a second before trying again, whoever wakes the thread.
        if (!done) wake.wait_for(lock, std::chrono::seconds(1), [&] { return stop.load(); });
      }
    }

    bool Done() noexcept {
      try {
        return work(stop);
      } catch (const std::exception&) {
        return false;
      }
    }

    const Work work;
    std::mutex mutex;
    std::condition_variable wake;
    bool wanted = false;
    std::atomic<bool> stop = false;
    std::thread thread;  // last, because it uses all members above
  };

  const OwnProcess process_;
  std::unique_ptr<State> state_;
};

}  // namespace ctrlab::embedding
