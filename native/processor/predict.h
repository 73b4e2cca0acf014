// TensorFlow Serving's PredictRequest and PredictResponse, as bytes on the wire.
//
// Source: tensorflow_serving/apis/predict.proto and tensorflow/core/framework/tensor.proto.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "processor/inputs.h"

namespace ctrlab::processor {

struct PredictRequest {
  Addressee addressee;
  std::vector<std::string> outputs;  // which it asks for; none: all
};

// Reads a PredictRequest and its arrays. `outputs` are those that the model has. As in TensorFlow, an array with fewer values than
// its shape says is filled up with its last value, or with zeros if it has none.
Answer ParsePredictRequest(std::string_view bytes, const Signature& signature, const std::vector<std::string>& outputs,
                           PredictRequest* request, Arrays* arrays);

std::string WritePredictResponse(const Addressee& by, const std::vector<Output>& outputs);

// The PredictRequest in a PredictionLog, the record of a file of warm-up requests; empty if it holds none.
std::string_view RequestInLog(std::string_view log);

}  // namespace ctrlab::processor
