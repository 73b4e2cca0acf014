#include "table/initial_values.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/abi.h"

namespace ctrlab::embedding {
namespace {

constexpr double kWithinTwo = 0.95449973610364158;  // probability that a standard normal is in [-2, 2]

// x with P(a standard normal is below x) = 1/2 + q, for |q| up to kWithinTwo / 2.
inline double InverseNormal(double q) {
  const double s = 4 * q * q;
  const double p = 2.5066282450753827 +
                   s * (-6.693707993731845 +
                        s * (6.215300150979127 + s * (-2.2503542937909153 + s * (0.21467350728030835 + s * 0.0094820876269418))));
  const double r = 1 + s * (-2.9322035311907326 + s * (3.103278946760515 + s * (-1.3859189102954914 + s * 0.2151628655679318)));
  return q * p / r;
}

template <class Value>
void FillWith(uint64_t stream, float* out, int64_t n, const Value& value) {
  for (int64_t o = 0; o < n; ++o) out[o] = value(Mix(stream + static_cast<uint64_t>(o + 1) * kGolden));
}

}  // namespace

void InitialValues::Fill(int64_t key, float* out) const {
  const uint64_t stream = Mix(static_cast<uint64_t>(key) + start_);
  const double a = initializer_.a, b = initializer_.b;
  switch (initializer_.kind) {
    case InitialKind::kConstant:
      std::fill_n(out, dim_, static_cast<float>(a));
      return;
    case InitialKind::kUniform: {
      const double width = static_cast<float>(b - a);
      return FillWith(stream, out, dim_,
                      [=](uint64_t bits) { return static_cast<float>(a + width * (static_cast<double>(bits >> 40) * 0x1p-24)); });
    }
    case InitialKind::kNormal:
      return FillWith(stream, out, dim_, [=](uint64_t bits) {
        const double u = (static_cast<double>(bits >> 32) + 1) * 0x1p-32, v = static_cast<double>(bits & 0xffffffff) * 0x1p-32;
        return static_cast<float>(a + b * std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v));
      });
    case InitialKind::kTruncatedNormal:
      return FillWith(stream, out, dim_, [=](uint64_t bits) {
        const double q = ((static_cast<double>(bits >> 11) + 0.5) * 0x1p-53 - 0.5) * kWithinTwo;
        return static_cast<float>(a + b * InverseNormal(q));
      });
  }
}

}  // namespace ctrlab::embedding

// For Python's tests: out[n, D].
CTRLAB_EXPORT void ctrlab_initial_values(int64_t kind, double a, double b, uint64_t seed, const int64_t* keys, int64_t n,
                                         int64_t dim, float* out) {
  using namespace ctrlab::embedding;
  const InitialValues values({static_cast<InitialKind>(kind), a, b, seed}, dim);
  for (int64_t i = 0; i < n; ++i) values.Fill(keys[i], out + i * dim);
}

CTRLAB_EXPORT uint64_t ctrlab_hash_key(int64_t key) { return ctrlab::embedding::HashKey(key); }
