// The arithmetic of the optimizers, on a vector of a row at a time. Dense and embedding variables share it.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/optimizer_step/optimizer_step.h"
#include "kernels/simd.h"

namespace ctrlab {

constexpr int64_t kPiece = 16384;  // numbers that one thread updates at a time

constexpr int64_t RowsOfPiece(int64_t dim) { return std::max<int64_t>(1, kPiece / std::max<int64_t>(1, dim)); }

inline float Sqrt(float x) { return __builtin_sqrtf(x); }

inline Vec Sqrt(const Vec& x) {
  Vec root;
  for (int64_t k = 0; k < kLanes; ++k) root[k] = __builtin_sqrtf(x[k]);
  return root;
}

// Each rule updates weight w and slots a, b by gradient g, for one float or a vector of floats.
struct Sgd {
  static constexpr int kSlots = 0;
  float rate;
  explicit Sgd(const StepRule& rule) : rate(rule.learning_rate) {}
  template <class T>
  void operator()(T& w, T&, T&, const T& g) const {
    w -= rate * g;
  }
};

struct Adagrad {
  static constexpr int kSlots = 1;
  float rate;
  explicit Adagrad(const StepRule& rule) : rate(rule.learning_rate) {}
  template <class T>
  void operator()(T& w, T& a, T&, const T& g) const {
    a += g * g;
    w -= rate * g / Sqrt(a);
  }
};

struct Ftrl {
  static constexpr int kSlots = 2;
  float rate, l1, l2;
  explicit Ftrl(const StepRule& rule) : rate(rule.learning_rate), l1(rule.l1), l2(rule.l2) {}
  template <class T>
  void operator()(T& w, T& n, T& z, const T& g) const {
    const T after = n + g * g, root = Sqrt(after), zero = {};
    z += g - (root - Sqrt(n)) / rate * w;
    n = after;
    const T divisor = root / rate + 2 * l2;
    w = z > l1 ? (l1 - z) / divisor : (z >= -l1 ? zero : (-l1 - z) / divisor);  // the last case also for NaN
  }
};

struct AdamAsync {
  static constexpr int kSlots = 2;
  float beta1, rest1, beta2, rest2, epsilon, rate;
  explicit AdamAsync(const StepRule& rule)
      : beta1(rule.beta1),
        rest1(1 - rule.beta1),
        beta2(rule.beta2),
        rest2(1 - rule.beta2),
        epsilon(rule.epsilon),
        rate(rule.learning_rate * std::sqrt(1 - std::pow(rule.beta2, rule.step)) / (1 - std::pow(rule.beta1, rule.step))) {}
  template <class T>
  void operator()(T& w, T& m, T& v, const T& g) const {
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * (g * g);
    w -= rate * m / (Sqrt(v) + epsilon);
  }
};

// Calls run with the rule's arithmetic.
template <class Run>
void WithRule(const StepRule& rule, const Run& run) {
  switch (rule.kind) {
    case kSgd:
      return run(Sgd(rule));
    case kAdagrad:
      return run(Adagrad(rule));
    case kFtrl:
      return run(Ftrl(rule));
    case kAdamAsync:
      return run(AdamAsync(rule));
  }
}

// Weights, slots and gradient of a row or of a piece of a dense variable. Pointers of slots that the rule lacks are not used.
template <int Slots>
struct StepRow {
  float *w, *a, *b;
  const float* g;
};

// A vector of a row. Reading and writing are separate, so that two overlapping tiles can both be read first.
template <int Slots>
struct StepTile {
  Vec w, a = {}, b = {};

  template <class Rule>
  StepTile(const Rule& rule, const StepRow<Slots>& row, int64_t o, float scale) : w(Load(row.w + o)) {
    if constexpr (Slots > 0) a = Load(row.a + o);
    if constexpr (Slots > 1) b = Load(row.b + o);
    rule(w, a, b, scale * Load(row.g + o));
  }

  void Write(const StepRow<Slots>& row, int64_t o) const {
    Store(row.w + o, w);
    if constexpr (Slots > 0) Store(row.a + o, a);
    if constexpr (Slots > 1) Store(row.b + o, b);
  }
};

// Steps n numbers, with the gradient times `scale`.
template <class Rule>
inline void Step(const Rule& rule, const StepRow<Rule::kSlots>& row, int64_t n, float scale) {
  if (n < kLanes) {
    for (int64_t o = 0; o < n; ++o) {
      float unused = 0;
      rule(row.w[o], Rule::kSlots > 0 ? row.a[o] : unused, Rule::kSlots > 1 ? row.b[o] : unused, scale * row.g[o]);
    }
    return;
  }
  const StepTile<Rule::kSlots> last(rule, row, n - kLanes, scale);  // may overlap the tile before it
  for (int64_t o = 0; o + kLanes < n; o += kLanes) StepTile<Rule::kSlots>(rule, row, o, scale).Write(row, o);
  last.Write(row, n - kLanes);
}

inline double SumOfSquares(const float* g, int64_t n) {
  double sum = 0;
  for (int64_t o = 0; o < n; o += 1024) sum += Dot(g + o, g + o, std::min<int64_t>(1024, n - o));
  return sum;
}

// The factor for a gradient with this sum of squares, if its norm is clipped.
inline float ClipScale(const StepRule& rule, double squares) {
  return rule.clip_norm / std::max(std::sqrt(squares), rule.clip_norm);
}

}  // namespace ctrlab
