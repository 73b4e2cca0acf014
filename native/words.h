// What a value of a column of ids is as a word: the rule of ctrlab/schema/words.py, which says it in full, for one value.

#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace ctrlab {

// Digits of a whole number of 64 bits, with a sign.
using Digits = char[24];

// The decimal digits of a whole number.
template <class Whole>
std::string_view WordOf(Whole number, Digits& made) {
  return {made, static_cast<size_t>(std::to_chars(made, std::end(made), number).ptr - made)};
}

// A number without a fraction, of 64 bits: false if it has no word.
inline bool WholeOf(double number, int64_t* whole) {
  constexpr double kMost = 9223372036854775808.0;
  if (!(number >= -kMost && number < kMost) || number != std::floor(number)) return false;
  *whole = static_cast<int64_t>(number);
  return true;
}

// The word of a text: a part of it, or `made`.
inline std::string_view WordOf(std::string_view text, Digits& made) {
  constexpr size_t kLongest = 64;
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  // Most texts that are no number say so by an end.
  if (text.empty() || !(is_digit(text.back()) || text.back() == '.' || is_blank(text.back()))) return text;
  std::string_view number = text;
  while (!number.empty() && is_blank(number.front())) number.remove_prefix(1);
  while (!number.empty() && is_blank(number.back())) number.remove_suffix(1);
  const bool is_signed = !number.empty() && (number[0] == '+' || number[0] == '-');
  const bool minus = is_signed && number[0] == '-';
  if (is_signed) number.remove_prefix(1);

  size_t at = 0;
  const auto digits = [&] {
    const size_t from = at;
    while (at < number.size() && is_digit(number[at])) ++at;
    return at - from;
  };
  const size_t whole = digits();
  const bool point = at < number.size() && number[at] == '.';
  at += point;
  const size_t fraction = point ? digits() : 0;
  if (whole + fraction == 0) return text;
  const bool zeros = number.substr(whole + point, fraction).find_first_not_of('0') == std::string_view::npos;
  const bool exponent = at < number.size() && (number[at] == 'e' || number[at] == 'E');
  bool code = whole > 1 && number[0] == '0';
  if (exponent) {
    ++at;
    const bool with_sign = at < number.size() && (number[at] == '+' || number[at] == '-');
    at += with_sign;
    code |= !point && !with_sign;
    while (at + 1 < number.size() && number[at] == '0') ++at;
    if (const size_t size = digits(); size < 1 || size > 2 || text.size() > kLongest) return text;
  }
  if (at != number.size() || code) return text;
  if (!exponent) {
    if (!zeros || (whole == 0 && text.size() > kLongest)) return text;
    if (whole == 0 || number[0] == '0') return number.substr(whole == 0, 1);
    return {number.data() - minus, whole + minus};
  }
  double value;
  int64_t found;
  if (std::from_chars(number.data(), number.data() + number.size(), value).ec != std::errc()) return text;
  return WholeOf(minus ? -value : value, &found) ? WordOf(found, made) : text;
}

}  // namespace ctrlab
