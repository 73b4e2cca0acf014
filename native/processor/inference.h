// The open inference protocol, as messages on the wire (gRPC's ModelInfer) and as JSON, whose tensors may stand behind it as bytes.
//
// Source: https://github.com/kserve/open-inference-protocol, and Triton's extension for binary tensors.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "processor/inputs.h"

namespace ctrlab::processor {

struct InferRequest {
  Addressee addressee;
  std::string id;                         // goes back with the answer
  std::vector<std::string> outputs;       // which it asks for; none: all
  bool binary = false;                    // whether the client wants values as bytes,
  std::map<std::string, bool> binary_of;  // and of which outputs it says that itself
};

// Reads a ModelInferRequest, whose arrays are given as raw or as typed contents. `outputs` are those that the model has.
Answer ParseInferRequest(std::string_view bytes, const Signature& signature, const std::vector<std::string>& outputs,
                         InferRequest* request, Arrays* arrays);

// Reads a request whose first `header` bytes are JSON and whose other bytes are tensors. With a `header` of -1 all bytes are
// JSON.
Answer ParseInferJson(std::string_view bytes, int64_t header, const Signature& signature, const std::vector<std::string>& outputs,
                      InferRequest* request, Arrays* arrays);

// A ModelInferResponse with raw contents.
std::string WriteInferResponse(const Addressee& by, const InferRequest& to, const std::vector<Output>& outputs);

// `header` gets the number of bytes that are JSON, or -1 where all are.
std::string WriteInferJson(const Addressee& by, const InferRequest& to, const std::vector<Output>& outputs, int64_t* header);

}  // namespace ctrlab::processor
