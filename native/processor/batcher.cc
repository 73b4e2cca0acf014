#include "processor/batcher.h"

#include <algorithm>
#include <new>

namespace ctrlab::processor {

Batcher::Counts Batcher::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

Answer Batcher::Run(const Servable& servable, const Tensors& inputs, std::vector<tensorflow::Tensor>* outputs,
                    serving::Moment* moment) {
  const int64_t rows = rows_ > 0 && servable.rows_apart() ? inputs.Rows() : -1;
  if (rows < 1 || rows >= rows_) return servable.Run(inputs, outputs, moment);
  std::unique_lock lock(mutex_);
  if (open_ && (open_->servable != &servable || open_->rows + rows > rows_)) {
    open_->closed = true;
    open_.reset();
    changes_.notify_all();
  }
  const bool leads = !open_;
  if (leads) open_ = std::make_shared<Batch>(&servable);
  const std::shared_ptr<Batch> batch = open_;
  batch->members.push_back(&inputs);
  const int64_t begin = batch->rows;
  batch->rows += rows;
  if (batch->rows == rows_) {
    batch->closed = true;
    open_.reset();
    changes_.notify_all();
  }
  if (leads) {
    changes_.wait_for(lock, wait_, [&] { return batch->closed; });
    if (open_ == batch) open_.reset();
    const bool alone = batch->members.size() == 1;
    if (!alone) counts_ = {counts_.calls + 1, counts_.requests + std::ssize(batch->members)};
    lock.unlock();
    if (alone) return servable.Run(inputs, outputs, moment);
    Lead(batch.get());
    lock.lock();
    batch->done = true;
    changes_.notify_all();
  } else {
    changes_.wait(lock, [&] { return batch->done; });
  }
  lock.unlock();
  if (!batch->answer.ok()) return servable.Run(inputs, outputs, moment);
  for (const tensorflow::Tensor& output : batch->outputs) outputs->push_back(output.Slice(begin, begin + rows));
  *moment = batch->moment;
  return {};
}

void Batcher::Lead(Batch* batch) {
  try {
    const Tensors all(batch->servable->signature(), batch->members);
    batch->answer = batch->servable->Run(all, &batch->outputs, &batch->moment);
  } catch (const std::bad_alloc&) {
    batch->answer = Refusal(Code::kUnavailable, "");
  }
  if (batch->answer.ok() && batch->outputs[0].dim_size(0) != batch->rows) batch->answer = Refusal(Code::kFailed, "");
}

}  // namespace ctrlab::processor
