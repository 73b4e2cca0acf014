// Requests and answers in JSON, as TensorFlow Serving's REST interface has them: by columns or by rows.
//
//   {"inputs": {"item": ["a", "b"], "history_items/values": ["c", "a"], "history_items/row_splits": [0, 2, 2]}}
//   {"inputs": {"item": ["a", "b"], "history_items": [["c", "a"], []]}}
//   {"instances": [{"item": "a", "history_items": ["c", "a"]}, {"item": "b", "history_items": []}]}
//
// Bytes that are no UTF-8 come as {"b64": "..."}. The answer is {"outputs": [[p], ...]} or, to rows, {"predictions": [[p], ...]}.
// Source: https://www.tensorflow.org/tfx/serving/api_rest. A column with lists by its own name is an addition to it.

#pragma once

#include <string>
#include <string_view>

#include "processor/inputs.h"

namespace ctrlab::processor {

// Fills the arrays. `rows` is whether the request came by rows.
Answer ParseJsonRequest(std::string_view json, const Signature& signature, Addressee* addressee, Arrays* arrays, bool* rows);

std::string WriteJsonResponse(const Output& output, bool rows);

// {"error": "..."}.
std::string WriteJsonError(std::string_view sentence);

// The shortest text that is read as the same number; null where JSON has none.
void AppendNumber(float value, std::string* out);

// The text as a JSON string, with its quotes. Where it is no UTF-8, a sign stands for each byte that is not ASCII.
std::string Quoted(std::string_view text);

}  // namespace ctrlab::processor
