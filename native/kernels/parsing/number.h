// A number in text, in the grammar of tf.strings.to_number: decimal or 0x, optionally with exponent; inf; nan; surrounding white
// space. Nothing else.

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

// nan or nan(word), where the word selects one of the many NaNs.
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

// Whether a number outside float32's range is too large rather than too close to zero. The position of its first nonzero digit,
// relative to the point, and the exponent decide.
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

// The whole grammar, rounded to the nearest float32. Returns false if the text is not a number.
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
    // The library's hexadecimal parser also accepts a leading minus and infinity, and one library accepts p+-4.
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

// The value of eight digits, one per byte, the first in the lowest byte.
inline int64_t EightDigits(uint64_t digits) {
  constexpr uint64_t kEverySecond = 0x000000ff000000ff;
  digits = digits * 10 + (digits >> 8);  // pairs of digits, in every second byte
  const uint64_t outer = (digits & kEverySecond) * (100 + (uint64_t{1'000'000} << 32));
  const uint64_t inner = (digits >> 16 & kEverySecond) * (1 + (uint64_t{10'000} << 32));
  return static_cast<int64_t>((outer + inner) >> 32);
}

// 10^-k, the nearest double.
inline constexpr double kPartsOfOne[] = {1e0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7};

// A decimal of n bytes, 1 to 8, without exponent, in the low bytes of `text`. Arithmetic on the whole word finds sign, point and
// digits, so there is no loop with an unpredictable end. Returns false for anything else.
inline bool ParseShortDecimal(uint64_t text, int64_t n, float* value) {
  const bool negative = (text & 0xff) == '-';
  if (negative) text >>= 8, --n;
  // Moves the last digit to the top byte. Bytes below the first digit become zero, also where a byte is removed.
  uint64_t digits = (text ^ kEachByte * '0') << (8 * (8 - n) & 63);
  const uint64_t other = digits ^ kEachByte * ('.' ^ '0');
  const uint64_t point = (other - kEachByte) & ~other & kEachByte * 0x80;  // its lowest bit belongs to the first zero byte
  int64_t decimals = 0;
  if (point != 0) {
    const uint64_t upto = point ^ (point - 1);
    decimals = std::countl_zero(upto) / 8;
    digits = (digits & upto >> 8) << 8 | (digits & ~upto);
  }
  const uint64_t past_nine = ((digits + kEachByte * (0x80 - 10)) | digits) & kEachByte * 0x80;
  if (past_nine != 0 || n <= (point != 0)) return false;
  // The product has a relative error below 2^-52. It rounds to the float nearest to the number: a number with eight digits, or
  // seven digits and a point, is either exact, or at least 2^-49 away from the midpoint between two floats.
  const float product = static_cast<float>(static_cast<double>(EightDigits(digits)) * kPartsOfOne[decimals]);
  *value = std::bit_cast<float>(std::bit_cast<uint32_t>(product) ^ static_cast<uint32_t>(negative) << 31);
  return true;
}

// Equivalent to ParseAnyFloat. Most numbers are short decimals, which are parsed here; it is faster if `readable` bytes at p,
// more than n, may be read.
inline bool ParseFloat(const char* p, int64_t n, float* value, int64_t readable = 0) {
  if (n > 0 && n <= 8 && ParseShortDecimal(readable >= 8 ? LoadWord(p) : LoadBytes(p, n), n, value)) return true;
  if (n == 0 || n > 18) return ParseAnyFloat(p, n, value);  // 17 digits and a point are below 2^63
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
  // Both operands are exact, so the quotient is the double nearest to the number. It also rounds to the float nearest to the
  // number, unless it is exactly the midpoint of two floats: then the number may be on either side of it.
  const double quotient = static_cast<double>(digits) / kPowersOfTen[decimals];
  constexpr uint64_t kBelowFloat = (uint64_t{1} << 29) - 1, kHalf = uint64_t{1} << 28;
  if ((std::bit_cast<uint64_t>(quotient) & kBelowFloat) == kHalf) return ParseAnyFloat(p, n, value);
  *value = static_cast<float>(negative ? -quotient : quotient);
  return true;
}

// A whole number with optional surrounding white space. Returns false if the text is not one, or is out of int64's range.
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
