// Dynamic batching: requests that come together are one call of the model.
//
// The first request of a batch leads it: it waits until the batch is full, at most for a time, calls the model, and the others take
// their rows of the answer. A batch is of one version, and a call is of one update. A request whose arrays don't agree is left
// alone, and so is each request of a batch that the model refuses: then only the odd one fails.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "processor/servable.h"

namespace ctrlab::processor {

class Batcher {
 public:
  // `rows` is the most that a batch has; 0: every request is a call of its own.
  Batcher(int64_t rows, std::chrono::microseconds wait) : rows_(rows), wait_(wait) {}

  // Like `servable.Run`. Thread-safe.
  Answer Run(const Servable& servable, const Tensors& inputs, tensorflow::Tensor* output, serving::Moment* moment);

  // Calls of the model for more than one request, and how many requests they had.
  struct Counts {
    int64_t calls, requests;
  };
  Counts counts() const;

 private:
  struct Batch {
    explicit Batch(const Servable* servable) : servable(servable) {}

    const Servable* const servable;
    std::vector<const Tensors*> members;
    int64_t rows = 0;
    bool closed = false, done = false;
    Answer answer;
    tensorflow::Tensor output;
    serving::Moment moment;
  };

  void Lead(Batch* batch);

  const int64_t rows_;
  const std::chrono::microseconds wait_;
  mutable std::mutex mutex_;
  std::condition_variable changes_;
  std::shared_ptr<Batch> open_;  // that takes more requests
  Counts counts_{0, 0};
};

}  // namespace ctrlab::processor
