// Requests and answers in JSON, as TensorFlow Serving's REST interface has them: by columns or by rows.
//
//   {"inputs": {"item": ["a", "b"], "history_items/values": ["c", "a"], "history_items/row_splits": [0, 2, 2]}}
//   {"inputs": {"item": ["a", "b"], "history_items": [["c", "a"], []]}}
//   {"instances": [{"item": "a", "history_items": ["c", "a"]}, {"item": "b", "history_items": []}]}
//
// A model of one column also takes it without its name: {"inputs": [...]}, {"instances": [2.0, 3.0]}. Bytes that are no UTF-8 come
// as {"b64": "..."}. The answer is {"outputs": [[p], ...]} or, to rows, {"predictions": [[p], ...]}; of a model of several outputs
// it is {"outputs": {"a": [[p], ...], ...}} or {"predictions": [{"a": [p], ...}, ...]}.
//
// Two things are an addition to it: a column with lists by its own name; and a value that is missing, null or not there at all,
// which becomes the schema's default.
// Source: https://www.tensorflow.org/tfx/serving/api_rest.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "processor/inputs.h"

namespace ctrlab::processor {

// Fills the arrays. `rows` is whether the request came by rows.
Answer ParseJsonRequest(std::string_view json, const Signature& signature, Addressee* addressee, Arrays* arrays, bool* rows);

std::string WriteJsonResponse(const std::vector<Output>& outputs, bool rows);

// {"error": "..."}.
std::string WriteJsonError(std::string_view sentence);

// Value k of an output, which is finite: the shortest text that is read as the same number.
void AppendValue(const Output& output, int64_t k, std::string* out);

// The text as a JSON string, with its quotes. Where it is no UTF-8, a sign stands for each byte that is not ASCII.
std::string Quoted(std::string_view text);

}  // namespace ctrlab::processor
