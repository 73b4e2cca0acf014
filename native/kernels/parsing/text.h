// Text in the form that kernels take, and its parts between separators.

#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace ctrlab {

struct StringView {
  const char* data;
  int64_t size;
};

// The first byte of eight becomes the lowest, on any machine.
inline uint64_t LoadWord(const char* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof word);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}

inline uint64_t LoadHalf(const char* p) {
  uint32_t half;
  std::memcpy(&half, p, sizeof half);
  if constexpr (std::endian::native == std::endian::big) half = __builtin_bswap32(half);
  return half;
}

// The n bytes at p, 1 to 8, the first in the lowest byte, padded with zeros. It reads no other byte.
inline uint64_t LoadBytes(const char* p, int64_t n) {
  if (n == 8) return LoadWord(p);
  if (n >= 4) return LoadHalf(p) | LoadHalf(p + n - 4) << 8 * (n - 4);
  auto byte = [&](int64_t i) { return static_cast<uint64_t>(static_cast<uint8_t>(p[i])) << 8 * i; };
  return byte(0) | byte(n / 2) | byte(n - 1);
}

// The top bit of every zero byte of `word`. Bytes are tested separately, so nothing carries into a neighbour.
inline uint64_t ZeroBytes(uint64_t word) {
  constexpr uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
  return ~(((word & kLow) + kLow) | word | kLow);
}

constexpr uint64_t kEachByte = 0x0101010101010101;

// Bit i tells whether byte i of the 64 at p equals the byte that `pattern` repeats.
inline uint64_t BytesThatAre(uint64_t pattern, const char* p) {
  typedef uint8_t Bytes __attribute__((vector_size(64)));
  typedef uint64_t Words __attribute__((vector_size(64)));
  typedef uint8_t Tops __attribute__((vector_size(8)));
  Bytes text;
  std::memcpy(&text, p, sizeof text);
  // Each equal byte keeps one bit; a product collects a word's eight bits in its highest byte.
  constexpr uint64_t kBits = std::endian::native == std::endian::big ? 0x0102040810204080 : 0x8040201008040201;
  const Words bits = (Words)(text == (Bytes)(Words{} + pattern)) & kBits;
  const Tops tops = __builtin_convertvector(bits * kEachByte >> 56, Tops);
  return LoadWord(reinterpret_cast<const char*>(&tops));
}

// The same for n < 64 bytes.
inline uint64_t BytesThatAre(uint64_t pattern, const char* p, int64_t n) {
  auto bits = [&](uint64_t word) { return (ZeroBytes(word ^ pattern) >> 7) * 0x0102040810204080 >> 56; };
  uint64_t found = 0;
  int64_t i = 0;
#pragma GCC unroll 8
  for (; i + 8 <= n; i += 8) found |= bits(LoadWord(p + i)) << i;
  if (i < n) found |= (bits(LoadBytes(p + i, n - i)) & ((1 << (n - i)) - 1)) << i;
  return found;
}

// Calls visit(i, size, found) for each block of up to 64 bytes at text.data + i. Bit k of `found` tells whether byte k of the
// block is the separator (one byte).
template <class Visit>
inline void ForEachBlock(StringView text, StringView separator, const Visit& visit) {
  const uint64_t pattern = kEachByte * static_cast<uint8_t>(separator.data[0]);
  int64_t i = 0;
  for (; i + 64 <= text.size; i += 64) visit(i, int64_t{64}, BytesThatAre(pattern, text.data + i));
  if (i < text.size) visit(i, text.size - i, BytesThatAre(pattern, text.data + i, text.size - i));
}

// Calls visit(begin, size) for each nonempty part of `text` between separators, from first to last.
template <class Visit>
inline void ForEachPart(StringView text, StringView separator, const Visit& visit) {
  const char* const p = text.data;
  int64_t begin = 0;
  auto part = [&](int64_t end) {
    if (end > begin) visit(p + begin, end - begin);
  };
  if (separator.size != 1) {
    const std::string_view all(p, text.size), between(separator.data, separator.size);
    for (size_t end; (end = all.find(between, begin)) != all.npos; begin = end + between.size()) part(end);
    return part(text.size);
  }
  ForEachBlock(text, separator, [&](int64_t i, int64_t, uint64_t ends) {
    for (; ends != 0; ends &= ends - 1) {
      const int64_t end = i + std::countr_zero(ends);
      part(end);
      begin = end + 1;
    }
  });
  part(text.size);
}

// The number of parts that ForEachPart visits.
inline int64_t CountParts(StringView text, StringView separator) {
  int64_t count = 0;
  if (separator.size != 1) {
    ForEachPart(text, separator, [&](const char*, int64_t) { ++count; });
    return count;
  }
  // A part begins at a byte that is not a separator, at the start of the text or after a separator.
  uint64_t before = 1;
  ForEachBlock(text, separator, [&](int64_t, int64_t size, uint64_t ends) {
    count += std::popcount(~ends & (ends << 1 | before) & (~uint64_t{0} >> (64 - size)));
    before = ends >> 63;
  });
  return count;
}

}  // namespace ctrlab
