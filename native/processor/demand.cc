#include "processor/demand.h"

#include <algorithm>

#include "processor/servable.h"

namespace ctrlab::processor {

namespace {

// The bytes that all ops of a traced call allocated, whether or not they were freed before it ended.
int64_t AllocatedIn(const tensorflow::RunMetadata& traced) {
  int64_t bytes = 0;
  for (const auto& device : traced.step_stats().dev_stats()) {
    for (const auto& node : device.node_stats()) {
      for (const auto& used : node.memory()) bytes += used.total_bytes();
    }
  }
  return bytes;
}

}  // namespace

Limit Demand::In(int64_t most_bytes) const {
  Limit limit;
  limit.rows = std::max<int64_t>(most_bytes / bytes, 1);
  limit.values = static_cast<int64_t>(std::min(static_cast<double>(limit.rows) * values, 1e18)) + kMostRepeated;
  return limit;
}

// By two calls, one of twice the rows, if requests can be joined: what does not grow with the rows is left out.
void Servable::MeasureDemand(tensorflow::CallableOptions options) {
  for (int32_t i = 0; i < signature().size(); ++i) {
    double guess = signature()[i].name.ends_with("/values") ? Demand::kOfList : 1;
    for (const int64_t size : signature()[i].row) guess *= static_cast<double>(size < 0 ? Demand::kOfList : size);
    demand_.values += guess;
  }
  if (warm_up_.empty()) return;
  options.mutable_run_options()->set_trace_level(tensorflow::RunOptions::SOFTWARE_TRACE);
  tensorflow::Session::CallableHandle traces;
  if (!bundle_.GetSession()->MakeCallable(options, &traces).ok()) return;
  int64_t rows = 0;
  const auto allocated = [&](const Tensors& request) -> int64_t {
    std::vector<tensorflow::Tensor> values;
    tensorflow::RunMetadata traced;
    serving::Moment moment;
    if (!Call(traces, request, &values, &traced, &moment).ok()) return 0;
    rows = values[0].dim_size(0);
    return AllocatedIn(traced);
  };
  const Tensors& request = warm_up_[0];
  int64_t bytes = allocated(request);
  const int64_t of_once = rows;
  if (bytes > 0 && request.Rows() > 0) bytes = allocated(Tensors(signature(), {&request, &request})) - bytes;
  static_cast<void>(bundle_.GetSession()->ReleaseCallable(traces));
  if (bytes <= 0 || of_once == 0) return;
  int64_t count = 0;
  for (const tensorflow::Tensor& input : request.all()) count += input.NumElements();
  demand_ = {std::max(bytes / of_once, Demand::kLeast), static_cast<double>(count) / static_cast<double>(of_once)};
}

}  // namespace ctrlab::processor
