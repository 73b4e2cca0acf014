// Vectors of floats, in the vector extension of gcc and clang: portable, without intrinsics. A Vec is as wide as the machine's
// registers, because gcc keeps a wider one in memory.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace ctrlab {

#if defined(__AVX512F__)
constexpr int64_t kLanes = 16;
#elif defined(__AVX__)
constexpr int64_t kLanes = 8;
#else
constexpr int64_t kLanes = 4;
#endif
typedef float Vec __attribute__((vector_size(kLanes * sizeof(float))));

// n, rounded up to whole vectors of any machine: layouts do not depend on it.
constexpr int64_t Padded(int64_t n) { return (n + 15) / 16 * 16; }

// `p` need not be aligned.
inline Vec Load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline void Store(float* p, const Vec& v) { std::memcpy(p, &v, sizeof v); }

// y[0:n] += a * x[0:n]
inline void AddScaled(float* y, float a, const float* x, int64_t n) {
  if (n < kLanes) {
    for (int64_t o = 0; o < n; ++o) y[o] += a * x[o];
    return;
  }
  // The last vector may overlap those before, so they are read before any write.
  const Vec last = Load(y + n - kLanes) + a * Load(x + n - kLanes);
  for (int64_t o = 0; o + kLanes < n; o += kLanes) Store(y + o, Load(y + o) + a * Load(x + o));
  Store(y + n - kLanes, last);
}

// to[0:n] = from[0:n]; the two must not overlap.
inline void Copy(const float* from, float* to, int64_t n) {
  if (n < kLanes) {
    std::copy_n(from, n, to);
    return;
  }
  for (int64_t o = 0; o + kLanes < n; o += kLanes) Store(to + o, Load(from + o));
  Store(to + n - kLanes, Load(from + n - kLanes));
}

// Prefetches the cache line `bytes` past `p`; the address need not be valid.
inline void Prefetch(const void* p, int64_t bytes) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(p) + static_cast<uintptr_t>(bytes)));
}

// The sum of all lanes, by adding halves.
inline float Sum(const Vec& v) {
  typedef float Half __attribute__((vector_size(32)));
  typedef float Quarter __attribute__((vector_size(16)));
  Quarter q;
  if constexpr (kLanes == 4) {
    std::memcpy(&q, &v, sizeof q);
  } else {
    Half half;
    if constexpr (kLanes == 8) {
      std::memcpy(&half, &v, sizeof half);
    } else {
      Half halves[2];
      std::memcpy(halves, &v, sizeof v);
      half = halves[0] + halves[1];
    }
    Quarter quarters[2];
    std::memcpy(quarters, &half, sizeof half);
    q = quarters[0] + quarters[1];
  }
  return (q[0] + q[2]) + (q[1] + q[3]);
}

// sum of x[0:n] * y[0:n]
inline float Dot(const float* x, const float* y, int64_t n) {
  Vec sums = {};
  int64_t o = 0;
  for (; o + kLanes <= n; o += kLanes) sums += Load(x + o) * Load(y + o);
  float sum = 0;
  for (; o < n; ++o) sum += x[o] * y[o];
  return sum + Sum(sums);
}

// Transposes kLanes x kLanes in place, in rounds, each swapping halves of pairs of rows that are `step` apart.
template <int step, int... lane>
inline void TransposeRound(Vec* v, std::integer_sequence<int, lane...>) {
  for (int i = 0; i < kLanes; ++i) {
    if (i & step) continue;
    const Vec a = v[i], b = v[i + step];
    v[i] = __builtin_shufflevector(a, b, (lane & step ? lane - step + static_cast<int>(kLanes) : lane)...);
    v[i + step] = __builtin_shufflevector(a, b, (lane & step ? lane + static_cast<int>(kLanes) : lane + step)...);
  }
}

inline void Transpose(Vec* v) {
  constexpr auto lanes = std::make_integer_sequence<int, kLanes>();
  if constexpr (kLanes > 8) TransposeRound<8>(v, lanes);
  if constexpr (kLanes > 4) TransposeRound<4>(v, lanes);
  TransposeRound<2>(v, lanes);
  TransposeRound<1>(v, lanes);
}

}  // namespace ctrlab
