// A number in text, as tf.strings.to_number takes it: decimal or 0x, with exponent, inf, nan, white space around it;
// nothing else.

#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "kernels/parsing/text.h"

namespace ctrlab {
namespace number {

inline bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

inline std::string_view Strip(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

inline char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline bool StartsWith(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::equal(lower.begin(), lower.end(), text.begin(), [](char a, char b) { return a == Lower(b); });
}

// nan or nan(word), where the word says which of the many NaNs is meant.
inline bool ParseNan(std::string_view text, float* value) {
  char word[128] = {};
  if (text.size() > 3) {
    if (text[3] != '(' || text.back() != ')') return false;
    text = text.substr(4, text.size() - 5);
    for (const char c : text) {
      const bool known = c == '_' || (c >= '0' && c <= '9') || (Lower(c) >= 'a' && Lower(c) <= 'z');
      if (!known) return false;
    }
    std::copy_n(text.begin(), std::min(text.size(), sizeof word - 1), word);
  }
  *value = std::nanf(word);
  return true;
}

// Whether a number that no float32 can hold is too large, rather than too close to zero: where its first digit other than 0
// stands, counted in digits from the point, and the exponent decide.
inline bool IsLarge(std::string_view text, bool hex) {
  const size_t mark = hex ? text.find_first_of("pP") : text.find_first_of("eE");
  const std::string_view mantissa = text.substr(0, mark);
  const size_t point = std::min(mantissa.find('.'), mantissa.size());
  const size_t first = mantissa.find_first_not_of("0.");
  const double places = static_cast<double>(point) - static_cast<double>(first) - (first < point);
  double exponent = 0;
  if (mark != text.npos) {
    const bool negative = text[mark + 1] == '-';
    for (const char c : text.substr(mark + 1)) {
      if (c >= '0' && c <= '9') exponent = std::min(1e18, 10 * exponent + (c - '0'));
    }
    if (negative) exponent = -exponent;
  }
  return places * (hex ? 4 : 1) + exponent > 0;
}

}  // namespace number

// The whole grammar, rounded to the nearest float32. False where the text is no number.
inline bool ParseAnyFloat(const char* p, int64_t n, float* value) {
  using namespace number;
  std::string_view text = Strip({p, static_cast<size_t>(n)});
  bool negative = false;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text.empty() || text[0] == '+' || text[0] == '-') return false;
  if (StartsWith(text, "nan")) {
    if (!ParseNan(text, value)) return false;
  } else {
    const bool hex = StartsWith(text, "0x");
    if (hex) text.remove_prefix(2);
    // The library's hexadecimals begin with a minus or infinity, too, and one reads p+-4.
    if (hex && (StartsWith(text, "-") || text.find("+-") != text.npos || StartsWith(text, "inf") || StartsWith(text, "nan")))
      return false;
    const auto format = hex ? std::chars_format::hex : std::chars_format::general;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, format);
    if (error == std::errc::invalid_argument || end != text.data() + text.size()) return false;
    if (error == std::errc::result_out_of_range) *value = IsLarge(text, hex) ? std::numeric_limits<float>::infinity() : 0;
  }
  if (negative) *value = -*value;
  return true;
}

// 10^k, exact in a double.
inline constexpr double kPowersOfTen[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                          1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19};

// What eight digits, a byte each, the first of them lowest, are together.
inline int64_t EightDigits(uint64_t digits) {
  constexpr uint64_t kEverySecond = 0x000000ff000000ff;
  digits = digits * 10 + (digits >> 8);  // two of them, in every second byte
  const uint64_t outer = (digits & kEverySecond) * (100 + (uint64_t{1'000'000} << 32));
  const uint64_t inner = (digits >> 16 & kEverySecond) * (1 + (uint64_t{10'000} << 32));
  return static_cast<int64_t>((outer + inner) >> 32);
}

// 10^-k, the nearest double.
inline constexpr double kPartsOfOne[] = {1e0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7};

// A decimal of n bytes, 1 to 8, without exponent, in the low bytes of `text`: sign, point and digits are found by arithmetic on
// the whole word, so there is no loop whose end has to be guessed. False where it is something else.
inline bool ParseShortDecimal(uint64_t text, int64_t n, float* value) {
  const bool negative = (text & 0xff) == '-';
  if (negative) text >>= 8, --n;
  // The last digit on top; below the first are zeros, also where a byte is taken out.
  uint64_t digits = (text ^ kEachByte * '0') << (8 * (8 - n) & 63);
  const uint64_t other = digits ^ kEachByte * ('.' ^ '0');
  const uint64_t point = (other - kEachByte) & ~other & kEachByte * 0x80;  // its lowest bit is that of the first zero byte
  int64_t decimals = 0;
  if (point != 0) {
    const uint64_t upto = point ^ (point - 1);
    decimals = std::countl_zero(upto) / 8;
    digits = (digits & upto >> 8) << 8 | (digits & ~upto);
  }
  const uint64_t past_nine = ((digits + kEachByte * (0x80 - 10)) | digits) & kEachByte * 0x80;
  if (past_nine != 0 || n <= (point != 0)) return false;
  // The product is within 2^-52 of the number, in proportion. It rounds to the float nearest to the number: a number of eight
  // digits or of seven and a point is exact in it, or 2^-49 or more away from the middle between two floats.
  const float product = static_cast<float>(static_cast<double>(EightDigits(digits)) * kPartsOfOne[decimals]);
  *value = std::bit_cast<float>(std::bit_cast<uint32_t>(product) ^ static_cast<uint32_t>(negative) << 31);
  return true;
}

// What ParseAnyFloat gives. Most numbers are short decimals; those are read here, quicker where `readable` bytes at p, more than
// n, may be read.
inline bool ParseFloat(const char* p, int64_t n, float* value, int64_t readable = 0) {
  if (n > 0 && n <= 8 && ParseShortDecimal(readable >= 8 ? LoadWord(p) : LoadBytes(p, n), n, value)) return true;
  if (n == 0 || n > 18) return ParseAnyFloat(p, n, value);  // up to 17 digits and a point are less than 2^63
  const bool negative = *p == '-';
  int64_t i = negative, point = -1;
  uint64_t digits = 0;
  for (; i < n; ++i) {
    const unsigned digit = static_cast<unsigned char>(p[i]) - '0';
    if (digit < 10) {
      digits = 10 * digits + digit;
    } else if (p[i] == '.' && point < 0) {
      point = i;
    } else {
      return ParseAnyFloat(p, n, value);
    }
  }
  const int64_t decimals = point < 0 ? 0 : n - 1 - point;
  if (n - negative - (point >= 0) == 0 || digits > uint64_t{1} << 53) return ParseAnyFloat(p, n, value);
  // Both operands are exact, so the quotient is the double nearest to the number. It rounds to the float nearest to the number
  // too, unless it stands exactly between two floats: then the number itself may lie on either side.
  const double quotient = static_cast<double>(digits) / kPowersOfTen[decimals];
  constexpr uint64_t kBelowFloat = (uint64_t{1} << 29) - 1, kHalf = uint64_t{1} << 28;
  if ((std::bit_cast<uint64_t>(quotient) & kBelowFloat) == kHalf) return ParseAnyFloat(p, n, value);
  *value = static_cast<float>(negative ? -quotient : quotient);
  return true;
}

// A whole number, with white space around it. False where the text is none, or out of int64's range.
inline bool ParseInt(const char* p, int64_t n, int64_t* value) {
  std::string_view text = number::Strip({p, static_cast<size_t>(n)});
  if (!text.empty() && text[0] == '+') {
    text.remove_prefix(1);
    if (!text.empty() && text[0] == '-') return false;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace ctrlab
