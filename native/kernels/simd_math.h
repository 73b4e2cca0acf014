// Elementary functions on a vector of floats at a time, by polynomials. The relative error is below 3e-7 if the result is a normal
// number (native/check/blocks.cc measures it). NaN stays NaN.

#pragma once

#include "kernels/simd.h"

namespace ctrlab {

typedef uint32_t Bits __attribute__((vector_size(kLanes * sizeof(uint32_t))));

inline Vec Splat(float x) { return x - Vec{}; }

inline Bits BitsOf(const Vec& v) { return reinterpret_cast<const Bits&>(v); }
inline Vec FromBits(const Bits& b) { return reinterpret_cast<const Vec&>(b); }

// e^x; x is first clamped to [-87.3, 88], where e^x is a normal number.
inline Vec Exp(Vec x) {
  x = x > 88.0f ? Splat(88.0f) : x;
  x = x < -87.3f ? Splat(-87.3f) : x;
  // x = n ln 2 + r with |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to a whole number in the low bits. With 127 added and shifted
  // into the exponent field these bits are 2^n. The result is multiplied by it; adding n to the exponent instead would turn a NaN
  // into a number.
  constexpr float kRound = 12582912.0f + 127.0f;
  const Vec shifted = x * 1.44269504f + kRound;
  const Vec n = shifted - kRound;
  const Vec r = x - n * 0.693359375f + n * 2.12194440e-4f;  // ln 2 in two parts; the first is exact when multiplied by n
  Vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;          // the minimax polynomial of Cephes's expf
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return p * FromBits(BitsOf(shifted) << 23);
}

inline Vec Sigmoid(const Vec& x) { return 1.0f / (1.0f + Exp(-x)); }

// x p(x^2) / q(x^2), Eigen's coefficients; past the clamp the result is 1 to the last bit but one.
inline Vec Tanh(Vec x) {
  x = x > 7.90531111f ? Splat(7.90531111f) : x;
  x = x < -7.90531111f ? Splat(-7.90531111f) : x;
  const Vec square = x * x;
  Vec p = square * -2.76076847742355e-16f + 2.00018790482477e-13f;
  p = p * square - 8.60467152213735e-11f;
  p = p * square + 5.12229709037114e-08f;
  p = p * square + 1.48572235717979e-05f;
  p = p * square + 6.37261928875436e-04f;
  p = p * square + 4.89352455891786e-03f;
  Vec q = square * 1.19825839466702e-06f + 1.18534705686654e-04f;
  q = q * square + 2.26843463243900e-03f;
  q = q * square + 4.89352518554385e-03f;
  return x * p / q;
}

// log(1 + e^x), the cross-entropy of a logit -x whose label is 1.
inline Vec Softplus(const Vec& x) {
  const Vec e = Exp(x < 0.0f ? x : -x);          // in (0, 1]
  const Vec s = e / (2.0f + e), square = s * s;  // log(1 + e) = 2 artanh(s), and s <= 1/3
  Vec p = square * (2.0f / 15) + 2.0f / 13;
  p = p * square + 2.0f / 11;
  p = p * square + 2.0f / 9;
  p = p * square + 2.0f / 7;
  p = p * square + 2.0f / 5;
  p = p * square + 2.0f / 3;
  p = p * square + 2.0f;
  return (x > 0.0f ? x : Vec{}) + p * s;
}

}  // namespace ctrlab
