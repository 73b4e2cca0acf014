// Dynamic batching: requests that arrive at about the same time share one call of the model.
//
// The first request of a batch leads it. It waits until the batch is full, but not longer than `wait`, and calls the model; the
// others take their rows of the answer. A batch uses one version of the model, and a call uses one update of its weights. A
// request whose arrays don't agree runs alone. If the model refuses a batch, each of its requests runs alone: then only the
// faulty one fails.

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
  // A batch has at most `rows` rows; 0: every request is a call of its own.
  Batcher(int64_t rows, std::chrono::microseconds wait) : rows_(rows), wait_(wait) {}

  // Like `servable.Run`. Thread-safe.
  Answer Run(const Servable& servable, const Tensors& inputs, std::vector<tensorflow::Tensor>* outputs, serving::Moment* moment);

  // The number of calls that served more than one request, and of the requests in these calls.
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
    std::vector<tensorflow::Tensor> outputs;
    serving::Moment moment;
  };

  void Lead(Batch* batch);

  const int64_t rows_;
  const std::chrono::microseconds wait_;
  mutable std::mutex mutex_;
  std::condition_variable changes_;
  std::shared_ptr<Batch> open_;  // the batch that still takes requests, or null
  Counts counts_{0, 0};
};

}  // namespace ctrlab::processor
