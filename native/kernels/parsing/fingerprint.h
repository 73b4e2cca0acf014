// FarmHash's 64-bit fingerprint, the hash behind tf.strings.to_hash_bucket_fast. It is stable: equal bytes always hash equally.
//
// Source: Geoff Pike, FarmHash (Fingerprint64 is its farmhashna::Hash64), 2014. The length selects one of four formulas, each
// with a few multiplications.

#pragma once

#include <utility>

#include "kernels/parsing/text.h"

namespace ctrlab {

namespace fingerprint {

// Three primes between 2^63 and 2^64.
constexpr uint64_t k0 = 0xc3a5c85c97cb3127, k1 = 0xb492b66fbe98f273, k2 = 0x9ae16a3b2f90404f;

inline uint64_t Fold(uint64_t x) { return x ^ (x >> 47); }

inline uint64_t Mix(uint64_t u, uint64_t v, uint64_t factor) { return Fold((Fold((u ^ v) * factor) ^ v) * factor) * factor; }

inline uint64_t UpTo16(const char* p, uint64_t n) {
  if (n == 0) return k2;
  const uint64_t factor = k2 + 2 * n;
  if (n >= 8) {
    const uint64_t first = LoadWord(p) + k2, last = LoadWord(p + n - 8);
    return Mix(std::rotr(last, 37) * factor + first, (std::rotr(first, 25) + last) * factor, factor);
  }
  if (n >= 4) return Mix(n + (LoadHalf(p) << 3), LoadHalf(p + n - 4), factor);
  const uint32_t first = static_cast<uint8_t>(p[0]), middle = static_cast<uint8_t>(p[n / 2]),
                 last = static_cast<uint8_t>(p[n - 1]);
  return Fold((first + (middle << 8)) * k2 ^ (n + (last << 2)) * k0) * k2;
}

// The common part for 17 to 64 bytes: mixes the first and last 32 bytes.
struct Outer {
  uint64_t a, factor, left, right;

  Outer(const char* p, uint64_t n, uint64_t k) : a(LoadWord(p) * k), factor(k2 + 2 * n) {
    const uint64_t b = LoadWord(p + 8), c = LoadWord(p + n - 8) * factor, d = LoadWord(p + n - 16) * k2;
    left = std::rotr(a + b, 43) + std::rotr(c, 30) + d;
    right = a + std::rotr(b + k2, 18) + c;
  }
};

inline uint64_t UpTo32(const char* p, uint64_t n) {
  const Outer outer(p, n, k1);
  return Mix(outer.left, outer.right, outer.factor);
}

inline uint64_t UpTo64(const char* p, uint64_t n) {
  const Outer outer(p, n, k2);
  const uint64_t z = Mix(outer.left, outer.right, outer.factor);
  const uint64_t e = LoadWord(p + 16) * outer.factor, f = LoadWord(p + 24);
  const uint64_t g = (outer.left + LoadWord(p + n - 32)) * outer.factor, h = (z + LoadWord(p + n - 24)) * outer.factor;
  return Mix(std::rotr(e + f, 43) + std::rotr(g, 30) + h, e + std::rotr(f + outer.a, 18) + g, outer.factor);
}

struct Pair {
  uint64_t first = 0, second = 0;
};

// Combines 32 bytes and two seeds into two words.
inline Pair Absorb(const char* p, uint64_t a, uint64_t b) {
  a += LoadWord(p);
  b = std::rotr(b + a + LoadWord(p + 24), 21);
  const uint64_t before = a;
  a += LoadWord(p + 8) + LoadWord(p + 16);
  return {a + LoadWord(p + 24), b + std::rotr(a, 44) + before};
}

// The hash state: seven words.
struct State {
  uint64_t x, y, z;
  Pair v, w;

  // Adds 64 bytes. All blocks but the last mix with k1 and count their carried words once.
  void Block(const char* p, uint64_t factor, uint64_t times) {
    x = std::rotr(x + y + v.first + LoadWord(p + 8), 37) * factor;
    y = std::rotr(y + v.second + LoadWord(p + 48), 42) * factor;
    x ^= w.second * times;
    y += v.first * times + LoadWord(p + 40);
    z = std::rotr(z + w.first, 33) * factor;
    v = Absorb(p, v.second * factor, x + w.first);
    w = Absorb(p + 32, z + w.second, y + LoadWord(p + 16));
    std::swap(z, x);
  }
};

inline uint64_t Beyond64(const char* p, int64_t n) {
  constexpr uint64_t kSeed = 81;
  State s = {};
  s.x = kSeed * k2 + LoadWord(p);
  s.y = kSeed * k1 + 113;
  s.z = Fold(s.y * k2 + 113) * k2;
  const int64_t rest = (n - 1) % 64;  // bytes after the last full block, minus one
  for (const char* end = p + (n - 1) / 64 * 64; p != end; p += 64) s.Block(p, k1, 1);
  // The last 64 bytes, which may overlap the block before.
  const uint64_t factor = k1 + 2 * (s.z & 0xff);
  s.w.first += rest;
  s.v.first += s.w.first;
  s.w.first += s.v.first;
  s.Block(p + rest - 63, factor, 9);
  return Mix(Mix(s.v.first, s.w.first, factor) + Fold(s.y) * k0 + s.z, Mix(s.v.second, s.w.second, factor) + s.x, factor);
}

}  // namespace fingerprint

inline uint64_t Fingerprint64(const char* p, int64_t n) {
  if (n <= 16) return fingerprint::UpTo16(p, n);
  if (n <= 32) return fingerprint::UpTo32(p, n);
  if (n <= 64) return fingerprint::UpTo64(p, n);
  return fingerprint::Beyond64(p, n);
}

}  // namespace ctrlab
