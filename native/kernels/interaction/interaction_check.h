// The interaction kernels on random and adversarial batches, against their scalar twins.

#pragma once

#include "check/harness.h"
#include "kernels/interaction/interaction.h"
#include "kernels/interaction/interaction_scalar.h"

#pragma weak ctrlab_factorization_machine
#pragma weak ctrlab_factorization_machine_gradient
#pragma weak ctrlab_dot_interaction
#pragma weak ctrlab_dot_interaction_gradient

namespace ctrlab::check::interaction {

struct Case {
  std::string name;
  int64_t rows, fields, dim;
  bool bottom;

  int64_t vectors() const { return fields + bottom; }
  int64_t outputs() const { return (bottom ? dim : 0) + vectors() * (vectors() - 1) / 2; }
};

inline std::vector<Case> Cases() {
  return {
      {"the contest's 26 fields of 16 beside a bottom vector", 5, 26, 16, true},
      {"26 fields of 16 alone", 5, 26, 16, false},
      {"one field beside a bottom vector", 3, 1, 16, true},
      {"one field alone: no pair", 3, 1, 16, false},
      {"two fields", 3, 2, 16, false},
      {"as many vectors as fit a register", 3, 15, 16, true},
      {"one vector more", 3, 16, 16, true},
      {"more vectors than two registers hold", 2, 40, 16, true},
      {"one dimension", 3, 5, 1, true},
      {"dimensions that no vector divides", 3, 9, 19, true},
      {"many dimensions", 2, 18, 64, true},
      {"a batch of one row", 1, 7, 8, true},
      {"a batch of no rows", 0, 7, 8, true},
      {"any sizes", Uniform(1, 9), Uniform(1, 50), Uniform(1, 70), Uniform(0, 2) == 0},
  };
}

// One kernel on one case, with the work cut by each pool, against its twin. The twin on absolute values says how large the
// terms are that a float32 sum rounds.
struct Checker {
  std::string kernel;
  const Case& test;
  Floats bottom, fields, d_out;
  std::unique_ptr<float[]> bottom_copy, fields_copy, d_out_copy;

  Checker(const std::string& name, const Case& which) : kernel(name), test(which) {
    const int64_t width = kernel.starts_with("dot") ? test.outputs() : test.dim;
    bottom = RandomFloats(test.bottom ? test.rows * test.dim : 0);
    fields = RandomFloats(test.rows * test.fields * test.dim);
    d_out = RandomFloats(test.rows * width);
    bottom_copy = Exactly(bottom), fields_copy = Exactly(fields), d_out_copy = Exactly(d_out);
  }

  InteractionInput Input(const float* low, const float* high) const {
    return {test.bottom ? low : nullptr, high, test.rows, test.fields, test.dim};
  }

  void Run(const Pool& pool) const {
    const std::string name = Trying(test.name, pool);
    if (kernel == "dot_interaction") Dots(name, pool);
    if (kernel == "dot_interaction_gradient") DotsGradient(name, pool);
    if (kernel == "factorization_machine") Machine(name, pool);
    if (kernel == "factorization_machine_gradient") MachineGradient(name, pool);
    Untouched(name, bottom, bottom_copy.get());
    Untouched(name, fields, fields_copy.get());
    Untouched(name, d_out, d_out_copy.get());
  }

  void Dots(const std::string& name, const Pool& pool) const {
    Floats expected(test.rows * test.outputs()), magnitude(expected.size());
    const Floats low = Absolute(bottom), high = Absolute(fields);
    scalar::DotInteraction(Input(bottom.data(), fields.data()), expected.data());
    scalar::DotInteraction(Input(low.data(), high.data()), magnitude.data());
    const auto out = Exactly(Nans(std::ssize(expected)));
    const InteractionInput input = Input(bottom_copy.get(), fields_copy.get());
    ctrlab_dot_interaction(&input, out.get(), &pool.parallel_for);
    Compare("out[b] must be the bottom vector, if there is one, then the dots of the strict lower triangle, row by row.", name,
            expected, magnitude, out.get(), test.outputs());
  }

  void DotsGradient(const std::string& name, const Pool& pool) const {
    const int64_t width = test.fields * test.dim;
    Floats first(bottom.size()), first_magnitude(bottom.size()), others(fields.size()), magnitude(fields.size());
    const Floats low = Absolute(bottom), high = Absolute(fields), g = Absolute(d_out);
    scalar::DotInteractionGradient(Input(bottom.data(), fields.data()), d_out.data(), first.data(), others.data());
    scalar::DotInteractionGradient(Input(low.data(), high.data()), g.data(), first_magnitude.data(), magnitude.data());
    const auto d_bottom = Exactly(Nans(std::ssize(first))), d_fields = Exactly(Nans(std::ssize(others)));
    const InteractionInput input = Input(bottom_copy.get(), fields_copy.get());
    ctrlab_dot_interaction_gradient(&input, d_out_copy.get(), test.bottom ? d_bottom.get() : nullptr, d_fields.get(),
                                    &pool.parallel_for);
    Compare("d_bottom[b, d] must be the output's own gradient and, of each pair with the bottom, d_pair times the other vector.",
            name, first, first_magnitude, d_bottom.get(), test.dim);
    Compare("d_fields[b, f * D + d] must be the sum over the pairs with f of d_pair times the other vector.", name, others,
            magnitude, d_fields.get(), width);
  }

  void Machine(const std::string& name, const Pool& pool) const {
    const InteractionInput input{nullptr, fields_copy.get(), test.rows, test.fields, test.dim};
    Floats expected(test.rows * test.dim), magnitude(expected.size());
    scalar::FactorizationMachine(input, expected.data());
    for (int64_t b = 0; b < test.rows; ++b) {  // a kernel may subtract squares, which rounds terms of this size
      for (int64_t d = 0; d < test.dim; ++d) {
        float sum = 0;
        for (int64_t f = 0; f < test.fields; ++f) sum += std::abs(fields[(b * test.fields + f) * test.dim + d]);
        magnitude[b * test.dim + d] = sum * sum;
      }
    }
    const auto out = Exactly(Nans(std::ssize(expected)));
    ctrlab_factorization_machine(&input, out.get(), &pool.parallel_for);
    Compare("out[b, d] must be the sum over pairs of fields of the products of their values in dimension d.", name, expected,
            magnitude, out.get(), test.dim);
  }

  void MachineGradient(const std::string& name, const Pool& pool) const {
    const InteractionInput input{nullptr, fields_copy.get(), test.rows, test.fields, test.dim};
    const Floats high = Absolute(fields), g = Absolute(d_out);
    Floats expected(fields.size()), magnitude(fields.size());
    scalar::FactorizationMachineGradient(input, d_out.data(), expected.data());
    scalar::FactorizationMachineGradient({nullptr, high.data(), test.rows, test.fields, test.dim}, g.data(), magnitude.data());
    for (size_t k = 0; k < magnitude.size(); ++k)
      magnitude[k] += high[k] * g[k / (test.fields * test.dim) * test.dim + k % test.dim];
    const auto d_fields = Exactly(Nans(std::ssize(expected)));
    ctrlab_factorization_machine_gradient(&input, d_out_copy.get(), d_fields.get(), &pool.parallel_for);
    Compare("d_fields[b, f * D + d] must be d_out[b, d] times the sum of the other fields' values in dimension d.", name,
            expected, magnitude, d_fields.get(), test.fields * test.dim);
  }
};

inline void Check(const std::string& kernel) {
  for (const Case& test : Cases()) {
    const Checker checker(kernel, test);
    for (const Pool& pool : pools) checker.Run(pool);
  }
}

inline const Entry entries[] = {
    {"factorization_machine", &ctrlab_factorization_machine != nullptr, "kernels/interaction/interaction.h", Check},
    {"factorization_machine_gradient", &ctrlab_factorization_machine_gradient != nullptr, "kernels/interaction/interaction.h",
     Check},
    {"dot_interaction", &ctrlab_dot_interaction != nullptr, "kernels/interaction/interaction.h", Check},
    {"dot_interaction_gradient", &ctrlab_dot_interaction_gradient != nullptr, "kernels/interaction/interaction.h", Check},
};

}  // namespace ctrlab::check::interaction
