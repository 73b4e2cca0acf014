// The initial value of an untrained key. ctrlab/embedding/initial_values.py is its twin in NumPy.
//
//   stream   s = Mix(uint64(key) + Mix(seed + G)) ;  bits(place) = Mix(s + (place + 1) G),  G = 0x9e3779b97f4a7c15 (SplitMix64)
//   uniform  u = (bits >> 40) / 2^24 ;  float32(a + float32(b - a) u): the product is exact in float64, so the result is bitwise
//            equal on every machine
//   normal   u = ((bits >> 32) + 1) / 2^32, v = (bits mod 2^32) / 2^32 ;  a + b sqrt(-2 ln u) cos(2 pi v)   (Box and Muller)
//   truncated normal
//            q = ((bits >> 11) + 1/2) / 2^53 - 1/2, times the probability of [-2, 2] ;  a + b q R(4 q^2),
//            R is a quotient of polynomials within 1.2e-8 of the inverse normal distribution there

#pragma once

#include <cstdint>

#include "store/hash.h"
#include "table/options.h"

namespace ctrlab::embedding {

class InitialValues {
 public:
  InitialValues(const Initializer& initializer, int64_t dim)
      : initializer_(initializer), dim_(dim), start_(Mix(initializer.seed + kGolden)) {}

  // out[0 : D], the same bits in every context.
  void Fill(int64_t key, float* out) const;

 private:
  Initializer initializer_;
  int64_t dim_;
  uint64_t start_;
};

}  // namespace ctrlab::embedding
