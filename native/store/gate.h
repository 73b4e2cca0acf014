// The locks of tables and stores.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

namespace ctrlab::embedding {

// A fair mutex: a waiting thread gets it before the thread that just released it, and a stream of readers can't starve a writer.
class FairMutex {
 public:
  void lock() {
    std::lock_guard turn(turnstile_);
    mutex_.lock();
  }
  bool try_lock() {
    std::unique_lock turn(turnstile_, std::try_to_lock);
    return turn && mutex_.try_lock();
  }
  void unlock() { mutex_.unlock(); }
  void lock_shared() {
    std::lock_guard turn(turnstile_);
    mutex_.lock_shared();
  }
  void unlock_shared() { mutex_.unlock_shared(); }

 private:
  std::mutex turnstile_;
  std::shared_mutex mutex_;
};

// A readers-writer lock. A waiting writer goes before readers that arrive later, so it never starves. Unlike a FairMutex it
// admits all readers as soon as no writer waits, without a queue. A thread that locks several gates takes them in the order of
// their addresses.
class Gate {
 public:
  void lock_shared() {
    std::unique_lock lock(mutex_);
    readers_turn_.wait(lock, [&] { return writers_ == 0; });
    ++readers_;
  }

  void unlock_shared() {
    std::lock_guard lock(mutex_);
    if (--readers_ == 0) writers_turn_.notify_all();
  }

  void lock() {
    std::unique_lock lock(mutex_);
    ++writers_;
    writers_turn_.wait(lock, [&] { return readers_ == 0 && !alone_; });
    alone_ = true;
  }

  void unlock() {
    std::lock_guard lock(mutex_);
    alone_ = false;
    if (--writers_ > 0) writers_turn_.notify_all();
    else readers_turn_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable readers_turn_, writers_turn_;
  int64_t readers_ = 0, writers_ = 0;  // inside; inside or waiting
  bool alone_ = false;                 // a writer is inside
};

}  // namespace ctrlab::embedding
