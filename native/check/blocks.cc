// Checks the building blocks of kernels against the C library and plain loops: the functions of simd_math.h, the GEMM of gemm.h.
//
//   blocks    one line per function, "<name> <worst relative error> <where>"; exit code 1 with a line on stderr if an error is
//             too large.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/simd_math.h"

namespace {

using namespace ctrlab;

bool wrong = false;

template <class Fn, class Truth>
void Measure(const char* name, const Fn& fn, const Truth& truth, float from, float to) {
  constexpr int kPoints = 100'000;
  double worst = 0, where = 0;
  auto at = [&](float x, int lane) {
    Vec v = Splat(0.5f);
    v[lane] = x;
    const double expected = truth(static_cast<double>(x)), received = fn(v)[lane];
    const double error = std::abs(received - expected) / std::max(std::abs(expected), 1e-37);
    if (!(error <= worst)) worst = error, where = x;
  };
  for (int i = 0; i <= kPoints; ++i) at(from + (to - from) * i / kPoints, i % kLanes);
  for (float x = 1e-30f; x < to; x *= 1.5f) at(x, 0), at(std::max(from, -x), 1);
  at(0.0f, 2);
  std::printf("%s %.3g %g\n", name, worst, where);
  if (!(worst <= 3e-7)) wrong = true, std::fprintf(stderr, "%s is off by %g at %g\n", name, worst, where);
  for (uint32_t payload = 1; payload < 1u << 23; payload = payload < 1u << 10 ? payload + 1 : payload * 5 / 4) {
    for (const uint32_t sign : {0u, 1u << 31}) {
      const uint32_t nan = sign | 0x7f800000 | payload;
      const Vec far = fn(FromBits(Bits{} + nan));
      if (!std::isnan(far[3])) wrong = true, std::fprintf(stderr, "%s makes %g of a NaN, %08x\n", name, far[3], nan);
    }
  }
}

void Product(bool add, int64_t m, int64_t n, int64_t k, bool transposed) {
  std::mt19937 rng(static_cast<unsigned>(m * 131 + n * 17 + k));
  std::normal_distribution<float> normal;
  auto random = [&](int64_t count) {
    std::unique_ptr<float[]> values(new float[count]);  // its exact size, so that AddressSanitizer sees an overrun
    std::generate_n(values.get(), count, [&] { return normal(rng); });
    return values;
  };
  const auto a = random(m * k), b = random(k * n), c = random(m * n);
  const Strided left = transposed ? Strided{a.get(), 1, m} : Strided{a.get(), k, 1};
  std::vector<double> expected(m * n), size(m * n);
  for (int64_t i = 0; i < m * n; ++i) {
    expected[i] = add ? c[i] : 0;
    for (int64_t p = 0; p < k; ++p) {
      const double term = double{left.data[i / n * left.row + p * left.step]} * b[p * n + i % n];
      expected[i] += term, size[i] += std::abs(term);
    }
  }
  Gemm(add, m, n, k, left, b.get(), n, c.get(), n);
  for (int64_t i = 0; i < m * n; ++i) {
    if (std::abs(c[i] - expected[i]) <= 1e-6 * (size[i] + std::abs(expected[i]))) continue;
    wrong = true;
    std::fprintf(stderr, "c[%ld, %ld] of [%ld, %ld] x [%ld, %ld] is %g, not %g\n", long(i / n), long(i % n), long(m), long(k),
                 long(k), long(n), c[i], expected[i]);
    return;
  }
}

}  // namespace

int main() {
  Measure("exp", [](const Vec& x) { return Exp(x); }, [](double x) { return std::exp(x); }, -87.0f, 88.0f);
  Measure("sigmoid", [](const Vec& x) { return Sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); }, -84.0f, 200.0f);
  Measure("tanh", [](const Vec& x) { return Tanh(x); }, [](double x) { return std::tanh(x); }, -200.0f, 200.0f);
  Measure("tanh", [](const Vec& x) { return Tanh(x); }, [](double x) { return std::tanh(x); }, -1.0f, 1.0f);
  auto softplus = [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); };
  Measure("softplus", [](const Vec& x) { return Softplus(x); }, softplus, -84.0f, 200.0f);
  for (int64_t n : {0, 16, 48, 64, 80, 112}) {
    for (int64_t m : {0, 1, 2, 3, 4, 5, 6, 7, 8, 17}) {
      for (int64_t k : {0, 1, 36}) {
        for (bool add : {false, true}) Product(add, m, n, k, false), Product(add, m, n, k, true);
      }
    }
  }
  return wrong;
}
