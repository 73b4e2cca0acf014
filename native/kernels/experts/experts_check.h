// The kernels of MMoE's experts and their mixture on random and adversarial batches, against their scalar twins.

#pragma once

#include "check/harness.h"
#include "kernels/experts/experts.h"
#include "kernels/experts/experts_scalar.h"

#pragma weak ctrlab_experts
#pragma weak ctrlab_experts_gradient
#pragma weak ctrlab_mixture
#pragma weak ctrlab_mixture_gradient

namespace ctrlab::check::experts {

using Arrays = std::vector<Floats>;
using Copies = std::vector<std::unique_ptr<float[]>>;

inline Copies ExactlyEach(const Arrays& arrays) {
  Copies copies;
  for (const Floats& array : arrays) copies.push_back(Exactly(array));
  return copies;
}

inline std::vector<float*> Pointers(const Copies& copies) {
  std::vector<float*> pointers;
  for (const auto& copy : copies) pointers.push_back(copy.get());
  return pointers;
}

inline std::vector<float*> Pointers(Arrays& arrays) {
  std::vector<float*> pointers;
  for (Floats& array : arrays) pointers.push_back(array.data());
  return pointers;
}

struct Case {
  std::string name;
  int64_t rows, experts;
  std::vector<int64_t> sizes;  // [L + 1]
  int64_t tasks;
};

inline std::vector<Case> Cases() {
  return {
      {"four experts of three layers", 9, 4, {21, 48, 32, 16}, 2},
      {"an input of whole vectors", 9, 2, {32, 16, 16}, 2},
      {"one expert of one layer, one task", 5, 1, {7, 16}, 1},
      {"more rows than a block", 70, 2, {5, 16, 16}, 3},
      {"more inputs than a block", 3, 2, {130, 112}, 2},
      {"one number in", 3, 3, {1, 16, 32}, 2},
      {"a batch of one row", 1, 3, {20, 16}, 2},
      {"a batch of no rows", 0, 3, {20, 16}, 2},
      {"any sizes", Uniform(1, 99), Uniform(1, 5), {Uniform(1, 99), 16 * Uniform(1, 9), 16 * Uniform(1, 4)}, Uniform(1, 4)},
  };
}

struct TowersChecker {
  const Case& test;
  Floats x, d_out;
  Arrays kernels, biases, hidden;
  std::unique_ptr<float[]> x_copy, d_out_copy;
  Copies kernel_copies, bias_copies, hidden_copies;

  explicit TowersChecker(const Case& which) : test(which) {
    const int64_t E = test.experts;
    x = RandomFloats(test.rows * test.sizes[0]);
    d_out = RandomFloats(E * test.rows * test.sizes.back());
    for (size_t l = 0; l + 1 < test.sizes.size(); ++l) {
      kernels.push_back(RandomFloats(E * test.sizes[l] * test.sizes[l + 1]));
      biases.push_back(RandomFloats(E * test.sizes[l + 1]));
      hidden.emplace_back(E * test.rows * test.sizes[l + 1]);
    }
    scalar::Experts(Input(x, Pointers(kernels), Pointers(biases)), Pointers(hidden).data());
    x_copy = Exactly(x), d_out_copy = Exactly(d_out);
    kernel_copies = ExactlyEach(kernels), bias_copies = ExactlyEach(biases), hidden_copies = ExactlyEach(hidden);
  }

  // The pointers that an input holds live in `keep`.
  mutable std::vector<std::vector<float*>> keep;
  ExpertsInput Input(const Floats& first, std::vector<float*> kernel, std::vector<float*> bias) const {
    return Input(first.data(), std::move(kernel), std::move(bias));
  }
  ExpertsInput Input(const float* first, std::vector<float*> kernel, std::vector<float*> bias) const {
    keep.push_back(std::move(kernel));
    const float* const* kernel_at = keep.back().data();
    keep.push_back(std::move(bias));
    return {first, kernel_at, keep.back().data(), test.sizes.data(), std::ssize(test.sizes) - 1, test.experts, test.rows};
  }
  ExpertsInput Real() const { return Input(x_copy.get(), Pointers(kernel_copies), Pointers(bias_copies)); }

  // For the size of a sum's terms: the same towers on absolute values, which ReLU passes unchanged.
  ExpertsInput AbsoluteInput(Floats& first, Arrays& kernel, Arrays& bias) const {
    first = Absolute(x);
    for (const Floats& array : kernels) kernel.push_back(Absolute(array));
    for (const Floats& array : biases) bias.push_back(Absolute(array));
    return Input(first, Pointers(kernel), Pointers(bias));
  }

  void Unchanged(const std::string& name) const {
    Untouched(name, x, x_copy.get());
    Untouched(name, d_out, d_out_copy.get());
    for (size_t l = 0; l < kernels.size(); ++l) {
      Untouched(name, kernels[l], kernel_copies[l].get());
      Untouched(name, biases[l], bias_copies[l].get());
      Untouched(name, hidden[l], hidden_copies[l].get());
    }
  }

  void Forward(const Pool& pool) const {
    Floats first;
    Arrays kernel, bias, magnitude = hidden;
    scalar::Experts(AbsoluteInput(first, kernel, bias), Pointers(magnitude).data());
    Copies out;
    for (const Floats& array : hidden) out.push_back(Exactly(Nans(std::ssize(array))));
    const ExpertsInput input = Real();
    ctrlab_experts(&input, Pointers(out).data(), &pool.parallel_for);
    const std::string name = Trying(test.name, pool);
    for (size_t l = 0; l < hidden.size(); ++l) {
      Compare("hidden[l][e, b] must be relu of layer l's input times kernels[l][e], plus biases[l][e].",
              name + ", layer " + std::to_string(l), hidden[l], magnitude[l], out[l].get(), test.sizes[l + 1]);
    }
    Unchanged(name);
  }

  void Gradient(const Pool& pool) const {
    Floats first, d_x(x.size()), most_x(x.size());
    Arrays kernel, bias, d_kernels = kernels, d_biases = biases, most_kernels = kernels, most_biases = biases, most = hidden;
    scalar::ExpertsGradient(Real(), Pointers(hidden_copies).data(), d_out.data(), d_x.data(), Pointers(d_kernels).data(),
                            Pointers(d_biases).data());
    const ExpertsInput absolute = AbsoluteInput(first, kernel, bias);
    scalar::Experts(absolute, Pointers(most).data());
    scalar::ExpertsGradient(absolute, Pointers(most).data(), Absolute(d_out).data(), most_x.data(), Pointers(most_kernels).data(),
                            Pointers(most_biases).data());
    Copies got_kernels, got_biases;
    for (const Floats& array : kernels) got_kernels.push_back(Exactly(Nans(std::ssize(array))));
    for (const Floats& array : biases) got_biases.push_back(Exactly(Nans(std::ssize(array))));
    const auto got_x = Exactly(Nans(std::ssize(x)));
    const ExpertsInput input = Real();
    const auto scratch = Exactly(Nans(ExpertsScratch(input)));
    ctrlab_experts_gradient(&input, Pointers(hidden_copies).data(), d_out_copy.get(), scratch.get(), got_x.get(),
                            Pointers(got_kernels).data(), Pointers(got_biases).data(), &pool.parallel_for);
    const std::string name = Trying(test.name, pool);
    Compare("d_x must be the sum over the experts of d_sums[0] times the kernel transposed.", name, d_x, most_x, got_x.get(),
            test.sizes[0]);
    for (size_t l = 0; l < kernels.size(); ++l) {
      const std::string where = name + ", layer " + std::to_string(l);
      Compare("d_kernels[l][e] must be the layer's input transposed times d_sums[l][e].", where, d_kernels[l], most_kernels[l],
              got_kernels[l].get(), test.sizes[l + 1]);
      Compare("d_biases[l][e] must be the sum of d_sums[l][e] over the rows.", where, d_biases[l], most_biases[l],
              got_biases[l].get(), test.sizes[l + 1]);
    }
    Unchanged(name);
  }
};

// The size of the terms of d_logits: a gate times the sum of absolute products, for this expert and for all.
inline Floats LogitTerms(const Floats& said, const Floats& gates, const Floats& d_out, const Case& test) {
  const int64_t B = test.rows, E = test.experts, K = test.tasks, H = test.sizes[0];
  Floats terms(gates.size());
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t k = 0; k < K; ++k) {
      float most = 0;
      for (int64_t e = 0; e < E; ++e) {
        float sum = 0;
        for (int64_t h = 0; h < H; ++h) sum += std::abs(said[(e * B + b) * H + h] * d_out[(k * B + b) * H + h]);
        most = std::max(most, sum);
      }
      for (int64_t e = 0; e < E; ++e) terms[(b * K + k) * E + e] = 2 * most * gates[(b * K + k) * E + e];
    }
  }
  return terms;
}

inline void CheckMixture(const Case& test, const Pool& pool, bool gradient) {
  const int64_t B = test.rows, E = test.experts, K = test.tasks, H = test.sizes[0];
  const Floats said = RandomFloats(E * B * H), d_out = RandomFloats(K * B * H);
  Floats logits = RandomFloats(B * K * E), gates(logits.size()), out(K * B * H), most(out.size());
  if (B) logits[0] = 200;  // exp of it is too large for float32
  const Floats absolute = Absolute(said);
  scalar::Mixture({absolute.data(), logits.data(), B, E, K, H}, gates.data(), most.data());
  scalar::Mixture({said.data(), logits.data(), B, E, K, H}, gates.data(), out.data());
  const auto said_copy = Exactly(said), logits_copy = Exactly(logits), gates_copy = Exactly(gates), d_out_copy = Exactly(d_out);
  const std::string name = Trying(test.name, pool);
  const auto got_gates = Exactly(Nans(std::ssize(gates)));
  const MixtureInput input{said_copy.get(), logits_copy.get(), B, E, K, H};
  if (!gradient) {
    const auto got = Exactly(Nans(std::ssize(out)));
    ctrlab_mixture(&input, got_gates.get(), got.get(), &pool.parallel_for);
    Compare("gates[b, k] must be the softmax of logits[b, k] over the experts.", name, gates, gates, got_gates.get(), K * E);
    Compare("out[k, b] must be the sum over the experts of gates[b, k, e] * experts[e, b].", name, out, most, got.get(), H);
  } else {
    Floats d_said(said.size()), d_logits(logits.size()), most_said(said.size());
    scalar::MixtureGradient(input, gates.data(), d_out.data(), d_said.data(), d_logits.data());
    Floats ignored(logits.size());
    scalar::MixtureGradient(input, gates.data(), Absolute(d_out).data(), most_said.data(), ignored.data());
    const auto got_said = Exactly(Nans(std::ssize(said))), got_logits = Exactly(Nans(std::ssize(logits)));
    ctrlab_mixture_gradient(&input, gates_copy.get(), d_out_copy.get(), got_said.get(), got_logits.get(), &pool.parallel_for);
    Compare("d_experts[e, b] must be the sum over the tasks of gates[b, k, e] * d_out[k, b].", name, d_said, most_said,
            got_said.get(), H);
    Compare("d_logits must be the softmax's gradient of d_gates[b, k, e] = experts[e, b] . d_out[k, b].", name, d_logits,
            LogitTerms(said, gates, d_out, test), got_logits.get(), K * E);
  }
  Untouched(name, said, said_copy.get());
  Untouched(name, logits, logits_copy.get());
  Untouched(name, gates, gates_copy.get());
  Untouched(name, d_out, d_out_copy.get());
}

template <void (TowersChecker::*Run)(const Pool&) const>
inline void CheckTowers(const std::string&) {
  for (const Case& test : Cases()) {
    const TowersChecker checker(test);
    for (const Pool& pool : pools) (checker.*Run)(pool);
  }
}

template <bool gradient>
inline void CheckMixtures(const std::string&) {
  for (const Case& test : Cases()) {
    for (const Pool& pool : pools) CheckMixture(test, pool, gradient);
  }
}

inline const Entry entries[] = {
    {"experts", &ctrlab_experts != nullptr, "kernels/experts/experts.h", CheckTowers<&TowersChecker::Forward>},
    {"experts_gradient", &ctrlab_experts_gradient != nullptr, "kernels/experts/experts.h", CheckTowers<&TowersChecker::Gradient>},
    {"mixture", &ctrlab_mixture != nullptr, "kernels/experts/experts.h", CheckMixtures<false>},
    {"mixture_gradient", &ctrlab_mixture_gradient != nullptr, "kernels/experts/experts.h", CheckMixtures<true>},
};

}  // namespace ctrlab::check::experts
