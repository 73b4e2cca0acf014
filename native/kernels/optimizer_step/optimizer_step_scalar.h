// The scalar twin of optimizer_step.h: the definition in plain loops, in double. The checker compares with it.

#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/optimizer_step/optimizer_step.h"

namespace ctrlab::scalar {

inline void StepNumber(const StepRule& rule, double& w, double& a, double& b, double g) {
  const double rate = rule.learning_rate;
  if (rule.kind == kSgd) {
    w -= rate * g;
  } else if (rule.kind == kAdagrad) {
    a += g * g;
    w -= rate * g / std::sqrt(a);
  } else if (rule.kind == kFtrl) {
    const double after = a + g * g;
    b += g - (std::sqrt(after) - std::sqrt(a)) / rate * w;
    a = after;
    const double over = std::abs(b) - rule.l1;
    w = over <= 0 ? 0.0 : -std::copysign(over, b) / (std::sqrt(after) / rate + 2 * rule.l2);
  } else {
    a = rule.beta1 * a + (1 - rule.beta1) * g;
    b = rule.beta2 * b + (1 - rule.beta2) * g * g;
    const double bias = std::sqrt(1 - std::pow(rule.beta2, rule.step)) / (1 - std::pow(rule.beta1, rule.step));
    w -= rate * bias * a / (std::sqrt(b) + rule.epsilon);
  }
}

inline void OptimizerStep(const StepRule& rule, const StepVariable* variables, int64_t count) {
  const int slots = rule.kind == kSgd ? 0 : rule.kind == kAdagrad ? 1 : 2;
  for (const StepVariable* v = variables; v != variables + count; ++v) {
    double squares = 0;
    for (int64_t k = 0; k < v->rows * v->dim; ++k) squares += static_cast<double>(v->gradient[k]) * v->gradient[k];
    const double scale = rule.clip_norm > 0 ? rule.clip_norm / std::max(std::sqrt(squares), rule.clip_norm) : 1.0;
    for (int64_t k = 0; k < v->rows * v->dim; ++k) {
      const int64_t at = v->ids ? v->ids[k / v->dim] * v->dim + k % v->dim : k;
      double w = v->weights[at], a = slots > 0 ? v->slots[0][at] : 0, b = slots > 1 ? v->slots[1][at] : 0;
      StepNumber(rule, w, a, b, scale * v->gradient[k]);
      v->weights[at] = static_cast<float>(w);
      if (slots > 0) v->slots[0][at] = static_cast<float>(a);
      if (slots > 1) v->slots[1][at] = static_cast<float>(b);
    }
  }
}

}  // namespace ctrlab::scalar
