// TensorFlow Serving's PredictRequest and PredictResponse, as bytes on the wire.
//
// Source: tensorflow_serving/apis/predict.proto and tensorflow/core/framework/tensor.proto.

#pragma once

#include <string>
#include <string_view>

#include "processor/inputs.h"

namespace ctrlab::processor {

// A PredictRequest's addressee and arrays. It may name its output, which is `output`. As in TensorFlow, an array that holds fewer values than its shape says has its last
// value in the places behind, or zeros.
Answer ParsePredictRequest(std::string_view bytes, const Signature& signature, std::string_view output, Addressee* addressee,
                           Arrays* arrays);

std::string WritePredictResponse(const Addressee& by, const Output& output);

// The PredictRequest in a PredictionLog, the record of a file of warm-up requests; empty if it holds none.
std::string_view RequestInLog(std::string_view log);

}  // namespace ctrlab::processor
