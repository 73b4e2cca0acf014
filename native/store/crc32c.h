// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78): the checksum of iSCSI, ext4 and most storage engines.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace ctrlab::embedding {

namespace crc32c {

// Eight tables: a byte's remainder when 0 to 7 zero bytes follow it, so that each step processes 8 bytes.
inline constexpr auto kTables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ (rest & 1 ? 0x82f63b78 : 0);
    tables[0][byte] = rest;
  }
  for (int zeros = 1; zeros < 8; ++zeros) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[zeros - 1][byte];
      tables[zeros][byte] = (before >> 8) ^ tables[0][before & 255];
    }
  }
  return tables;
}();

inline uint32_t PortableWord(uint32_t crc, uint64_t word) {
  word ^= crc;
  crc = 0;
  for (int i = 0; i < 8; ++i) crc ^= kTables[7 - i][word >> (8 * i) & 255];
  return crc;
}

inline uint32_t PortableByte(uint32_t crc, uint8_t byte) { return (crc >> 8) ^ kTables[0][(crc ^ byte) & 255]; }

#if defined(__SSE4_2__) && defined(__x86_64__)
inline uint32_t Word(uint32_t crc, uint64_t word) { return static_cast<uint32_t>(__builtin_ia32_crc32di(crc, word)); }
inline uint32_t Byte(uint32_t crc, uint8_t byte) { return __builtin_ia32_crc32qi(crc, byte); }
#elif defined(__ARM_FEATURE_CRC32)
inline uint32_t Word(uint32_t crc, uint64_t word) { return __crc32cd(crc, word); }
inline uint32_t Byte(uint32_t crc, uint8_t byte) { return __crc32cb(crc, byte); }
#else
inline uint32_t Word(uint32_t crc, uint64_t word) { return PortableWord(crc, word); }
inline uint32_t Byte(uint32_t crc, uint8_t byte) { return PortableByte(crc, byte); }
#endif

}  // namespace crc32c

// `before` is the checksum of the preceding bytes.
inline uint32_t Crc32c(const void* data, size_t bytes, uint32_t before = 0) {
  const auto* p = static_cast<const uint8_t*>(data);
  uint32_t crc = ~before;
  for (; bytes >= 8; p += 8, bytes -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    crc = crc32c::Word(crc, word);
  }
  while (bytes-- > 0) crc = crc32c::Byte(crc, *p++);
  return ~crc;
}

}  // namespace ctrlab::embedding
