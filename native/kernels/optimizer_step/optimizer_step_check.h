// The optimizer's kernel, every rule on dense and sparse variables, against its scalar twin.

#pragma once

#include "check/harness.h"
#include "kernels/optimizer_step/optimizer_step.h"
#include "kernels/optimizer_step/optimizer_step_scalar.h"

#pragma weak ctrlab_optimizer_step

namespace ctrlab::check::optimizer_step {

struct Variable {
  int64_t rows, dim;         // the weights' shape
  std::vector<int64_t> ids;  // ascending, each once
  bool sparse = true;
};

struct Case {
  std::string name;
  std::vector<Variable> variables;
  double clip_norm = 0;
};

inline std::vector<int64_t> Some(int64_t rows) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < rows; ++i) {
    if (Uniform(0, 3) == 0) ids.push_back(i);
  }
  return ids;
}

inline std::vector<Case> Cases() {
  const int64_t n = Uniform(20, 60);
  return {
      {"a table", {{n, 16, Some(n)}}},
      {"a dimension that no vector divides", {{n, 18, Some(n)}, {n, 67, Some(n)}}},
      {"a dimension of one", {{n, 1, Some(n)}}},
      {"the first and the last row", {{n, 18, {0, n - 1}}}},
      {"no row", {{n, 18, {}}}},
      {"a dense variable", {{n, 17, {}, false}}},
      {"a dense variable of one number", {{1, 1, {}, false}}},
      {"tables and dense variables", {{n, 18, Some(n)}, {5, 3, Some(5)}, {300, 70, {}, false}, {1, 9, {}, false}}},
      {"many rows", {{3000, 18, Some(3000)}}},
      {"gradients that are clipped, and one that is not", {{n, 18, Some(n)}, {300, 70, {}, false}, {1, 1, {}, false}}, 5},
  };
}

// A variable's buffers, filled alike for the kernel and its twin.
struct Buffers {
  std::vector<std::unique_ptr<float[]>> own;
  std::unique_ptr<int64_t[]> ids;
  StepVariable step;

  Buffers(const Variable& v, const std::vector<Floats>& values) {
    for (const Floats& array : values) own.push_back(Exactly(array));
    ids.reset(new int64_t[v.ids.size()]);
    std::copy(v.ids.begin(), v.ids.end(), ids.get());
    step = {own[0].get(), {own[1].get(), own[2].get()},          v.sparse ? ids.get() : nullptr,
            own[3].get(), v.sparse ? std::ssize(v.ids) : v.rows, v.dim};
  }
};

// Errors are measured relative to the weights and to what a step can add to them.
inline void CompareStep(const std::string& name, const StepRule& rule, const Variable& v, const Floats& before,
                        const Floats& expected, const float* received) {
  Floats magnitude(before.size());
  for (size_t k = 0; k < before.size(); ++k) magnitude[k] = std::abs(before[k]) + std::abs(expected[k]) + rule.learning_rate;
  Compare("Weights and slots must change by the rule.", name, expected, magnitude, received, v.dim);
  for (int64_t r = 0; v.sparse && r < v.rows; ++r) {
    if (std::binary_search(v.ids.begin(), v.ids.end(), r)) continue;
    for (int64_t k = r * v.dim; k < (r + 1) * v.dim; ++k) {
      if (received[k] == before[k]) continue;
      Fail("A row that no id names must keep its bits.", name, Quoted(before[k]), Quoted(received[k]),
           "[" + std::to_string(r) + "]");
    }
  }
}

inline void Run(const std::string& name, const Case& test, const StepRule& rule, const Pool& pool) {
  std::vector<std::vector<Floats>> values;
  std::vector<Buffers> expected, received;
  std::vector<StepVariable> expected_steps, received_steps;
  for (const Variable& v : test.variables) {
    const int64_t numbers = v.rows * v.dim, given = (v.sparse ? std::ssize(v.ids) : v.rows) * v.dim;
    values.push_back(
        {RandomFloats(numbers), Absolute(RandomFloats(numbers)), Absolute(RandomFloats(numbers)), RandomFloats(given)});
    for (float& a : values.back()[1]) a += 1;  // an accumulator near 0 would amplify every rounding
    expected_steps.push_back(expected.emplace_back(v, values.back()).step);
    received_steps.push_back(received.emplace_back(v, values.back()).step);
  }
  scalar::OptimizerStep(rule, expected_steps.data(), std::ssize(expected_steps));
  ctrlab_optimizer_step(&rule, received_steps.data(), std::ssize(received_steps), &pool.parallel_for);
  for (size_t i = 0; i < values.size(); ++i) {
    for (int array = 0; array < 3; ++array) {
      const Floats& before = values[i][array];
      const float* wanted = expected[i].own[array].get();
      CompareStep(name + ", variable " + std::to_string(i), rule, test.variables[i], before,
                  Floats(wanted, wanted + before.size()), received[i].own[array].get());
    }
    Untouched(name, values[i][3], received[i].own[3].get());
  }
}

inline void Check(const std::string&) {
  const std::pair<const char*, StepRule> rules[] = {
      {"sgd", {kSgd, 0, 0, 0, 0, 0, 0, 0.1, 1}},
      {"adagrad", {kAdagrad, 0, 0, 0, 0, 0, 0, 0.1, 1}},
      {"ftrl", {kFtrl, 0, 0, 0, 0.5, 0.1, 0, 1, 1}},
      {"adam_async", {kAdamAsync, 0.9, 0.999, 1e-8, 0, 0, 0, 0.1, 3}},
  };
  for (const Case& test : Cases()) {
    for (auto [kind, rule] : rules) {
      rule.clip_norm = test.clip_norm;
      for (const Pool& pool : pools) Run(Trying(test.name + ", " + kind, pool), test, rule, pool);
    }
  }
}

inline const Entry entries[] = {
    {"optimizer_step", &ctrlab_optimizer_step != nullptr, "kernels/optimizer_step/optimizer_step.h", Check},
};

}  // namespace ctrlab::check::optimizer_step
