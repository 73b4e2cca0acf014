// The open inference protocol, as messages on the wire (gRPC's ModelInfer) and as JSON, whose tensors may stand behind it as bytes.
//
// Source: https://github.com/kserve/open-inference-protocol, and Triton's extension for binary tensors.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "processor/inputs.h"

namespace ctrlab::processor {

struct InferRequest {
  Addressee addressee;
  std::string id;       // goes back with the answer
  bool binary = false;  // the client wants the answer's values as bytes
};

// Reads a ModelInferRequest, whose arrays are given as raw or as typed contents.
Answer ParseInferRequest(std::string_view bytes, const Signature& signature, std::string_view output, InferRequest* request,
                         Arrays* arrays);

// Reads a request whose first `header` bytes are JSON and whose other bytes are tensors. With a `header` of -1 all bytes are
// JSON.
Answer ParseInferJson(std::string_view bytes, int64_t header, const Signature& signature, std::string_view output,
                      InferRequest* request, Arrays* arrays);

// A ModelInferResponse with raw contents.
std::string WriteInferResponse(const Addressee& by, const InferRequest& to, const Output& output);

// `header` gets the number of bytes that are JSON, or -1 where all are.
std::string WriteInferJson(const Addressee& by, const InferRequest& to, const Output& output, int64_t* header);

}  // namespace ctrlab::processor
