// TensorFlow Serving's PredictRequest and PredictResponse, as bytes on the wire.
//
// Source: tensorflow_serving/apis/predict.proto and tensorflow/core/framework/tensor.proto.

#pragma once

#include <string>
#include <string_view>

#include "processor/inputs.h"

namespace ctrlab::processor {

// Reads a PredictRequest's addressee and arrays. If it names its output, that must be `output`. As in TensorFlow, an array with
// fewer values than its shape says is filled up with its last value, or with zeros if it has none.
Answer ParsePredictRequest(std::string_view bytes, const Signature& signature, std::string_view output, Addressee* addressee,
                           Arrays* arrays);

std::string WritePredictResponse(const Addressee& by, const Output& output);

// The PredictRequest in a PredictionLog, the record of a file of warm-up requests; empty if it holds none.
std::string_view RequestInLog(std::string_view log);

}  // namespace ctrlab::processor
