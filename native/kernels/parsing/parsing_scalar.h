// The scalar twins of parsing.h: the definition in plain loops over std::string, with C's strtof for numbers. Tests, the checker
// and the fuzzer compare with these. The hash is shared; tests compare it with TensorFlow's.

#pragma once

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/parsing/fingerprint.h"
#include "kernels/parsing/parsing.h"

namespace ctrlab::scalar {

inline std::string Text(StringView view) { return std::string(view.data, view.size); }

// The parts of a text that are not empty.
inline std::vector<std::string> Parts(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return parts;
}

// Surrounding white space is allowed; two signs, or no digits, are not.
inline std::string Stripped(const std::string& text) {
  const char* const space = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(space);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(space) + 1 - begin);
}

inline bool Number(const std::string& part, float* value) {
  const std::string text = Stripped(part);
  char* end;
  *value = std::strtof(text.c_str(), &end);
  return !text.empty() && end == text.c_str() + text.size();
}

inline bool Integer(const std::string& part, int64_t* value) {
  const std::string text = Stripped(part);
  char* end;
  errno = 0;
  *value = std::strtoll(text.c_str(), &end, 10);
  return errno == 0 && !text.empty() && end == text.c_str() + text.size();
}

inline bool Id(const IdSource& column, const std::string& text, int64_t* id) {
  if (column.encoding == Encoding::kHash) {
    *id = static_cast<int64_t>(Fingerprint64(text.data(), std::ssize(text)) % static_cast<uint64_t>(column.buckets));
  } else if (column.encoding == Encoding::kVocabulary) {
    *id = -1;
    for (int64_t i = column.buckets; i-- > 0;) {
      if (Text(column.words[i]) == text) *id = i;
    }
  } else {
    return Integer(text, id) && *id >= 0 && *id < column.buckets;
  }
  return true;
}

// The ids of row b; returns whether all are valid. Entries that are not kept are not parsed.
inline bool RowOfIds(const IdSource& column, int64_t b, std::vector<int64_t>* ids) {
  auto first_kept = [&](int64_t begin, int64_t end) {
    return column.max_length > 0 ? std::max(begin, end - column.max_length) : begin;
  };
  bool good = true;
  auto add = [&](const std::string& text) {
    ids->push_back(0);
    good &= Id(column, text, &ids->back());
  };
  if (column.separator.size > 0) {
    const std::vector<std::string> parts = Parts(Text(column.texts[b]), Text(column.separator));
    for (int64_t i = first_kept(0, std::ssize(parts)); i < std::ssize(parts); ++i) add(parts[i]);
    return good;
  }
  const int64_t end = column.splits ? column.splits[b + 1] : b + 1;
  for (int64_t i = column.splits ? first_kept(column.splits[b], end) : b; i < end; ++i) {
    if (column.texts) {
      add(Text(column.texts[i]));
    } else {
      ids->push_back(column.integers[i]);
      good &= ids->back() >= (column.encoding == Encoding::kVocabulary ? -1 : 0) && ids->back() < column.buckets;
    }
  }
  return good;
}

// out for row b; returns whether all parts are numbers.
inline bool RowOfNumbers(const NumberSource& column, int64_t b, float* out) {
  std::vector<float> numbers;
  bool good = true;
  if (column.texts) {
    for (const std::string& part : Parts(Text(column.texts[b]), Text(column.separator))) {
      numbers.push_back(0);
      good &= Number(part, &numbers.back());
    }
  } else if (column.splits) {
    numbers.assign(column.numbers + column.splits[b], column.numbers + column.splits[b + 1]);
  } else {
    numbers = {column.numbers[b]};
  }
  float x = 0;
  for (const float number : numbers) x += number;
  if (!numbers.empty()) x /= static_cast<float>(numbers.size());
  if (!column.texts && !column.splits) x = numbers[0];
  const float above = x - column.low;
  *out = x;
  if (column.transform == Transform::kLog1p) *out = above < 0 ? 0 : std::log1p(above);
  if (column.transform == Transform::kMinMax) *out = above / column.width;
  return good;
}

}  // namespace ctrlab::scalar
