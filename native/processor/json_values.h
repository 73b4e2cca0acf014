// A request's values in JSON, put into arrays: what the formats that are made of JSON share.

#pragma once

#include <simdjson.h>

#include <cmath>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "processor/received.h"

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

// Why a request is no JSON.
inline Answer NoJson(std::string_view json, simdjson::error_code error) {
  bool quoted = false;
  for (size_t at = 0; at < json.size(); ++at) {
    const auto is_letter = [&](size_t k) { return k < json.size() && std::isalpha(static_cast<unsigned char>(json[k])); };
    if (json[at] == '\\' && quoted) {
      ++at;
    } else if (json[at] == '"') {
      quoted = !quoted;
    } else if (!quoted && is_letter(at)) {
      size_t end = at;
      while (is_letter(end)) ++end;
      const std::string_view word = json.substr(at, end - at);
      if (word != "true" && word != "false" && word != "null" && word != "e" && word != "E") {
        return Invalid("A request is JSON, whose words are true, false and null; this has ", Shown(word),
                       " outside of quotes: a value that is missing is null.");
      }
      at = end - 1;
    }
  }
  if (error == simdjson::BIGINT_ERROR || error == simdjson::NUMBER_ERROR) {
    return Invalid(
        "A request's numbers are as JSON has them, whole ones of at most 64 bits, others up to 1e308; this has another: ",
        "write a larger whole one with an exponent, or an id as text.");
  }
  const std::string_view said = simdjson::error_message(error);
  const size_t code = said.find(": ");
  return Invalid("A request is JSON; this is none: ", code == said.npos ? said : said.substr(code + 2));
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
    if (error == simdjson::MEMALLOC) throw std::bad_alloc();
    return NoJson(json, error);
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

inline int64_t SizeOf(const array& values) {
  // size() counts to 2^24 - 1 only.
  const auto size = static_cast<int64_t>(values.size());
  if (size < 0xFFFFFF) return size;
  int64_t count = 0;
  for ([[maybe_unused]] const element& value : values) ++count;
  return count;
}

// A number of JSON as T; false if it is none that T holds.
template <class T>
bool NumberOf(const element& value, T* out) {
  if constexpr (std::is_same_v<T, bool>) {
    return value.get(*out) == simdjson::SUCCESS;
  } else if constexpr (kIsFloat<T>) {
    double number;
    if (value.get(number) != simdjson::SUCCESS) return false;
    *out = static_cast<T>(number);
    return IsFinite(*out);
  } else {
    std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t> number;
    if (value.get(number) != simdjson::SUCCESS) {
      double written;  // 3.0, as programs have whole numbers beside missing ones
      int64_t whole;
      if (!value.is_double() || value.get(written) != simdjson::SUCCESS || !WholeOf(written, &whole)) return false;
      if (std::is_unsigned_v<T> && whole < 0) return false;
      number = static_cast<decltype(number)>(whole);
    }
    *out = static_cast<T>(number);
    return *out == number;
  }
}

class Filler {
 public:
  Filler(const Signature& signature, Arrays* arrays, size_t bytes)
      : signature_(signature),
        arrays_(arrays),
        received_(signature, arrays, bytes),
        data_(signature.size()),
        rows_(signature.size()) {}

  Received& received() { return received_; }

  // An array of one dimension.
  Answer Make(int32_t i, int64_t n) { return received_.Make(i, n, &data_[i]); }
  Answer Make(int32_t i, const Shape& shape) { return received_.Make(i, shape, &data_[i]); }

  // An array whose rows come by `SetRow`. Where the model takes rows of any size, `first` says it.
  Answer MakeRows(int32_t i, int64_t rows, const element* first) {
    Shape shape = {rows};
    element at;
    if (first) at = *first;
    bool known = first != nullptr;
    for (const int64_t size : signature_[i].row) {
      array list;
      known = known && at.get(list) == simdjson::SUCCESS;
      shape.push_back(size >= 0 ? size : known ? SizeOf(list) : 1);
      known = known && list.begin() != list.end();
      if (known) at = *list.begin();
    }
    rows_[i].assign(shape.begin() + 1, shape.end());
    return received_.Make(i, shape, &data_[i]);
  }

  // The values of a row of input i, from value *k on, which moves on.
  Answer SetRow(int32_t i, int64_t* k, const element& value, const Place& place) { return SetPart(i, k, value, rows_[i], place); }

  // Value k of input i.
  Answer Set(int32_t i, int64_t k, const element& value, const Place& place) {
    if (value.is_null()) {
      if (const Signature::Default* missing = signature_.MissingIn(i)) {
        received_.FillMissing(i, k, *missing);
        return {};
      }
    }
    const Type type = signature_[i].type;
    if (type == Type::kText) return SetText(i, k, value, place);
    const bool set = WithNumber(type, [&]<class T>(T) {
      T* const out = static_cast<T*>(data_[i]) + k;
      bool truth;
      if (!kIsFloat<T> || !signature_.IsColumn(i) || value.get(truth) != simdjson::SUCCESS) return NumberOf(value, out);
      *out = static_cast<T>(truth);  // as in a table
      return true;
    });
    return set ? Answer{} : Odd(i, value, place);
  }

  void SetSplit(int32_t i, int64_t k, int64_t at) { static_cast<int64_t*>(data_[i])[k] = at; }

 private:
  Answer SetPart(int32_t i, int64_t* k, const element& value, std::span<const int64_t> shape, const Place& place) {
    array list;
    const bool is_list = value.get(list) == simdjson::SUCCESS;
    // As in Keras, a last size of 1 may be left out, or be too much.
    if (shape.empty() && is_list && SizeOf(list) == 1 && signature_.IsColumn(i)) return Set(i, (*k)++, *list.begin(), place);
    if (shape.empty() || (!is_list && shape.size() == 1 && shape[0] == 1)) return Set(i, (*k)++, value, place);
    if (!is_list || SizeOf(list) != shape[0]) {
      return Invalid("Lists of column ", place.column, " have ", shape[0], shape.size() > 1 ? " lists" : " values",
                     " each; received ", is_list ? std::to_string(SizeOf(list)) : KindOf(value), " in row ", place.row, ".");
    }
    for (const element& each : list) {
      if (Answer bad = SetPart(i, k, each, shape.subspan(1), place); !bad.ok()) return bad;
    }
    return {};
  }

  Answer SetText(int32_t i, int64_t k, const element& value, const Place& place) {
    std::string_view text;
    if (value.get(text) == simdjson::SUCCESS) {
      received_.SetText(i, k, text);
      return {};
    }
    if (signature_[i].words && value.is_number()) {
      const bool set = value.is_int64()    ? received_.SetWord(i, k, value.get_int64().value_unsafe())
                       : value.is_uint64() ? received_.SetWord(i, k, value.get_uint64().value_unsafe())
                                           : received_.SetWord(i, k, value.get_double().value_unsafe());
      return set ? Answer{} : Odd(i, value, place);
    }
    std::string bytes;
    if (value["b64"].get(text) == simdjson::SUCCESS && Base64(text, &bytes)) {
      received_.SetText(i, k, bytes);
      return {};
    }
    return Odd(i, value, place);
  }

  Answer Odd(int32_t i, const element& value, const Place& place) const {
    const std::string shown = Shown(simdjson::minify(value));
    const bool fraction = signature_[i].words && value.is_number();
    return Invalid("A value of ", place.Words(), ", must be ",
                   fraction ? "text, or a whole number of 64 bits" : FactsOf(signature_[i].type).wanted, "; received ",
                   value.is_null() || value.is_bool() ? shown : KindOf(value) + (": " + shown),
                   fraction ? ": send it as text." : ".");
  }

  const Signature& signature_;
  Arrays* const arrays_;
  Received received_;
  std::vector<void*> data_;
  std::vector<Shape> rows_;  // of each input that `MakeRows` made
};

}  // namespace ctrlab::processor
