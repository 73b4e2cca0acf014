// The types of a request's and an answer's values: their names in each protocol, and what of a number in a request fits into one.

#pragma once

#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <type_traits>

namespace ctrlab::processor {

enum class Type : int32_t {
  kText,
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kHalf,
  kFloat,
  kDouble
};

struct TypeFacts {
  const char *name, *datatype;  // TensorFlow's name, and the open inference protocol's
  int32_t tensorflow;           // the number in a TensorProto
  uint32_t values;              // the field of a TensorProto that holds its values
  uint32_t contents;            // the field of an InferTensorContents that does; 0: none does, they come as raw contents
  int32_t bytes;
  const char* wanted;  // what a value in JSON must be, for a sentence
};

inline constexpr TypeFacts kTypes[] = {
    {"string", "BYTES", 7, 8, 8, 0, "text, or {\"b64\": ...}"},
    {"bool", "BOOL", 10, 11, 1, 1, "true or false"},
    {"int8", "INT8", 6, 7, 2, 1, "a whole number of 8 bits"},
    {"int16", "INT16", 5, 7, 2, 2, "a whole number of 16 bits"},
    {"int32", "INT32", 3, 7, 2, 4, "a whole number of 32 bits"},
    {"int64", "INT64", 9, 10, 3, 8, "a whole number of 64 bits"},
    {"uint8", "UINT8", 4, 7, 4, 1, "a whole number of 8 bits, from 0"},
    {"uint16", "UINT16", 17, 7, 4, 2, "a whole number of 16 bits, from 0"},
    {"uint32", "UINT32", 22, 16, 4, 4, "a whole number of 32 bits, from 0"},
    {"uint64", "UINT64", 23, 17, 5, 8, "a whole number of 64 bits, from 0"},
    {"float16", "FP16", 19, 13, 0, 2, "a number that 16 bits hold"},
    {"float32", "FP32", 1, 5, 6, 4, "a number that 32 bits hold"},
    {"float64", "FP64", 2, 6, 7, 8, "a number that 64 bits hold"},
};

inline const TypeFacts& FactsOf(Type type) { return kTypes[static_cast<int32_t>(type)]; }
inline const char* NameOf(Type type) { return FactsOf(type).name; }
inline int64_t BytesOf(Type type) { return FactsOf(type).bytes; }
inline bool IsFloat(Type type) { return type >= Type::kHalf; }

using Half = _Float16;

template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T> || std::is_same_v<T, Half>;

// Calls what(T{}) with a value of the C++ type; `type` is not text.
template <class What>
decltype(auto) WithNumber(Type type, const What& what) {
  switch (type) {
    case Type::kBool:
      return what(bool{});
    case Type::kInt8:
      return what(int8_t{});
    case Type::kInt16:
      return what(int16_t{});
    case Type::kInt32:
      return what(int32_t{});
    case Type::kInt64:
      return what(int64_t{});
    case Type::kUint8:
      return what(uint8_t{});
    case Type::kUint16:
      return what(uint16_t{});
    case Type::kUint32:
      return what(uint32_t{});
    case Type::kUint64:
      return what(uint64_t{});
    case Type::kHalf:
      return what(Half{});
    case Type::kFloat:
      return what(float{});
    default:
      return what(double{});
  }
}

// A whole number of a protocol buffer, as T; false if T can't hold it. Half comes as its bits.
template <class T>
bool FromVarint(uint64_t number, T* out) {
  if constexpr (std::is_same_v<T, Half>) {
    const auto bits = static_cast<uint16_t>(number);
    __builtin_memcpy(out, &bits, sizeof bits);
    return bits == number;
  } else {
    *out = static_cast<T>(number);
    return static_cast<uint64_t>(*out) == number;  // numbers below 0 come with all 64 bits
  }
}

// Which of the numbers' types this is, by a name or a number of one of `kTypes`' fields; if it is none, `otherwise`.
template <class Field, class Value>
Type NumberType(Field TypeFacts::* field, const Value& value, Type otherwise) {
  for (size_t k = static_cast<size_t>(Type::kInt8); k < std::size(kTypes); ++k) {
    if (kTypes[k].*field == value) return static_cast<Type>(k);
  }
  return otherwise;
}

template <class T>
bool IsFinite(T value) {
  return std::isfinite(static_cast<double>(value));
}

}  // namespace ctrlab::processor
