// A request's values in JSON, put into arrays: what the formats that are made of JSON share.

#pragma once

#include <simdjson.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "processor/inputs.h"

namespace ctrlab::processor {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;
using simdjson::dom::object;

inline const char* KindOf(const element& value) {
  switch (value.type()) {
    case element_type::ARRAY:
      return "a list";
    case element_type::OBJECT:
      return "an object";
    case element_type::STRING:
      return "text";
    case element_type::BOOL:
      return "true or false";
    case element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

// Calls read(fields) with the fields of a request, which must be a JSON object. `form` shows its form, for the error if it is not
// one.
template <class Read>
Answer ReadObject(std::string_view json, const char* form, const Read& read) {
  // A thread's parser keeps its memory for the next request, unless this one needs more than most do.
  constexpr size_t kKept = 1 << 20;
  thread_local simdjson::dom::parser kept;
  simdjson::dom::parser once;
  simdjson::dom::parser& parser = json.size() > kKept ? once : kept;
  element request;
  if (const auto error = parser.parse(json.data(), json.size()).get(request); error) {
    if (error == simdjson::BIGINT_ERROR || error == simdjson::NUMBER_ERROR) {
      return Invalid(
          "A request's numbers are JSON's, whole ones of at most 64 bits; this has another: write it with an exponent.");
    }
    return Invalid("A request is JSON; this is none: ", simdjson::error_message(error));
  }
  object fields;
  if (request.get(fields) != simdjson::SUCCESS) {
    return Invalid("A request is an object, ", form, "; received ", KindOf(request), ".");
  }
  return read(fields);
}

// The column and row of a value, for the sentence of an error.
struct Place {
  std::string_view column;
  int64_t row;

  std::string Words() const { return std::string(column) + ", row " + std::to_string(row); }
};

// The bytes of a base64 text, RFC 4648; false if it is none.
inline bool Base64(std::string_view text, std::string* bytes) {
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const uint32_t digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                           : c >= 'a' && c <= 'z' ? c - 'a' + 26
                           : c >= '0' && c <= '9' ? c - '0' + 52
                           : c == '+' || c == '-' ? 62
                           : c == '/' || c == '_' ? 63
                                                  : 64;
    if (digit == 64) return false;
    bits = bits << 6 | digit;
    if ((count += 6) >= 8) *bytes += static_cast<char>(bits >> (count -= 8));
  }
  return count < 6;
}

class Filler {
 public:
  Filler(const Signature& signature, Arrays* arrays)
      : signature_(signature), arrays_(arrays), received_(signature, arrays), data_(signature.size()) {}

  Received& received() { return received_; }

  Answer Make(int32_t i, int64_t n) { return received_.Make(i, n, &data_[i]); }

  // Value k of input i.
  Answer Set(int32_t i, int64_t k, const element& value, const Place& place) {
    const Type type = signature_[i].type;
    if (type == Type::kText) return SetText(i, k, value, place);
    if (type == Type::kFloat) {
      double number;
      if (value.get(number) != simdjson::SUCCESS || std::isinf(static_cast<float>(number))) return Odd(type, value, place);
      static_cast<float*>(data_[i])[k] = static_cast<float>(number);
      return {};
    }
    int64_t number;
    if (value.get(number) != simdjson::SUCCESS) return Odd(type, value, place);
    if (type == Type::kInt64) {
      static_cast<int64_t*>(data_[i])[k] = number;
      return {};
    }
    if (number != static_cast<int32_t>(number)) return Odd(type, value, place);
    static_cast<int32_t*>(data_[i])[k] = static_cast<int32_t>(number);
    return {};
  }

  void SetSplit(int32_t i, int64_t k, int64_t at) { static_cast<int64_t*>(data_[i])[k] = at; }

 private:
  Answer SetText(int32_t i, int64_t k, const element& value, const Place& place) {
    std::string_view text;
    if (value.get(text) == simdjson::SUCCESS) {
      arrays_->SetText(i, k, text);
      return {};
    }
    std::string bytes;
    if (value["b64"].get(text) == simdjson::SUCCESS && Base64(text, &bytes)) {
      arrays_->SetText(i, k, bytes);
      return {};
    }
    return Odd(Type::kText, value, place);
  }

  Answer Odd(Type type, const element& value, const Place& place) const {
    constexpr const char* kWanted[] = {"text, or {\"b64\": ...}", "a whole number of 32 bits", "a whole number of 64 bits",
                                       "a number that 32 bits hold"};
    return Invalid("A value of ", place.Words(), ", must be ", kWanted[static_cast<int32_t>(type)], "; received ", KindOf(value),
                   value.is_number() || value.is_string() ? " that is none: " : ": ", Shown(simdjson::minify(value)), ".");
  }

  const Signature& signature_;
  Arrays* const arrays_;
  Received received_;
  std::vector<void*> data_;
};

inline int64_t SizeOf(const array& values) {
  // size() counts to 2^24 - 1 only.
  const auto size = static_cast<int64_t>(values.size());
  if (size < 0xFFFFFF) return size;
  int64_t count = 0;
  for ([[maybe_unused]] const element& value : values) ++count;
  return count;
}

}  // namespace ctrlab::processor
