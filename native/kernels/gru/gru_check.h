// The GRU kernels on random and adversarial histories, against their scalar twins.

#pragma once

#include "check/harness.h"
#include "kernels/gru/gru.h"
#include "kernels/gru/gru_scalar.h"

#pragma weak ctrlab_gru
#pragma weak ctrlab_gru_gradient

namespace ctrlab::check::gru {

struct Case {
  std::string name;
  int64_t inputs, hidden;
  std::vector<int64_t> lengths;
  bool attended = true;
};

inline std::vector<int64_t> Lengths(int64_t rows, int64_t most) {
  std::vector<int64_t> lengths(rows);
  for (int64_t& n : lengths) n = Uniform(0, most + 1);
  return lengths;
}

inline std::vector<Case> Cases() {
  return {
      {"a plain GRU", 5, 4, Lengths(7, 6), false},
      {"attention", 5, 4, Lengths(7, 6)},
      {"the models' widths", 36, 36, Lengths(9, 5)},
      {"widths of whole vectors", 32, 16, Lengths(9, 5)},
      {"widths of no vector", 17, 19, Lengths(9, 5), false},
      {"one input, one hidden", 1, 1, Lengths(9, 5)},
      {"more rows than a block", 7, 6, Lengths(75, 4)},
      {"more rows than all blocks at once", 2, 3, Lengths(1100, 2)},
      {"rows that grow longer", 3, 4, {1, 2, 3, 4, 5}},
      {"rows of length 0", 3, 4, {0, 2, 0, 1, 0}},
      {"no position in the whole batch", 3, 4, {0, 0, 0}},
      {"a batch of one row", 3, 4, {6}},
      {"a batch of no rows", 3, 4, {}},
      {"a long history beside short ones", 3, 4, {40, 1, 1, 0}},
  };
}

// A case as kernels take it, in buffers of exactly its size.
struct Buffers {
  std::vector<int64_t> splits{0};
  std::vector<Floats> values;
  std::vector<std::unique_ptr<float[]>> copies;
  GruInput input;

  explicit Buffers(const Case& test) {
    const int64_t C = test.inputs, H = test.hidden;
    for (int64_t n : test.lengths) splits.push_back(splits.back() + n);
    const int64_t N = splits.back();
    for (int64_t size : {N * C, (C + H) * 2 * H, 2 * H, (C + H) * H, H, test.attended ? N : 0})
      values.push_back(RandomFloats(size));
    // As they are initialized, so that the sums of C + H terms stay near 1: else a right kernel's rounding exceeds the tolerance.
    for (Floats* weights : {&values[1], &values[3]})
      for (float& weight : *weights) weight /= std::sqrt(static_cast<float>(C + H));
    for (float& a : values[5]) a = 1 / (1 + std::exp(-a));
    for (const Floats& each : values) copies.push_back(Exactly(each));
    input = {copies[0].get(),
             splits.data(),
             copies[1].get(),
             copies[2].get(),
             copies[3].get(),
             copies[4].get(),
             test.attended ? copies[5].get() : nullptr,
             std::ssize(test.lengths),
             C,
             H};
  }

  void Unchanged(const std::string& name) const {
    for (size_t i = 0; i < values.size(); ++i) Untouched(name, values[i], copies[i].get());
  }
};

// Rounding errors of a whole history add up, so each number is held against the greatest of its tensor.
inline void CompareAll(const std::string& rule, const std::string& name, const Floats& expected, const float* received,
                       int64_t width) {
  float most = 1e-3f;
  for (float value : expected) most = std::max(most, std::abs(value));
  Compare(rule, name, expected, Floats(expected.size(), most), received, width);
}

struct Forward {
  Floats outputs, last, gates;

  Forward(const GruInput& input) {
    const int64_t N = input.splits[input.rows], H = input.hidden;
    outputs.resize(N * H), last.resize(input.rows * H), gates.resize(N * 3 * H);
    scalar::Gru(input, outputs.data(), last.data(), gates.data());
  }
};

inline void CheckForward(const std::string& name, const Buffers& buffers, const Pool& pool) {
  const Forward expected(buffers.input);
  const int64_t H = buffers.input.hidden;
  const auto outputs = Exactly(Nans(std::ssize(expected.outputs))), last = Exactly(Nans(std::ssize(expected.last)));
  const auto gates = Exactly(Nans(std::ssize(expected.gates)));
  ctrlab_gru(&buffers.input, outputs.get(), last.get(), gates.get(), &pool.parallel_for);
  CompareAll("outputs[p] must be u' h + (1 - u') c with the row's state h before position p.", name, expected.outputs,
             outputs.get(), H);
  CompareAll("last[b] must be the state after row b's last position, zeros for a row without any.", name, expected.last,
             last.get(), H);
  CompareAll("gates[p] must be r, u (before the attention) and c of position p.", name, expected.gates, gates.get(), 3 * H);
}

inline void CheckGradient(const std::string& name, const Buffers& buffers, const Pool& pool) {
  const GruInput& input = buffers.input;
  const Forward forward(input);
  const Floats d_outputs = RandomFloats(std::ssize(forward.outputs)), d_last = RandomFloats(std::ssize(forward.last));
  const Floats* given[] = {&forward.outputs, &forward.gates, &d_outputs, &d_last};
  std::vector<std::unique_ptr<float[]>> copies, received;
  for (const Floats* each : given) copies.push_back(Exactly(*each));
  std::vector<Floats> expected;
  for (const Floats& each : buffers.values) {
    expected.emplace_back(each.size());
    received.push_back(Exactly(Nans(std::ssize(each))));
  }
  std::vector<float*> wanted_at, got_at;
  for (size_t i = 0; i < expected.size(); ++i) {
    wanted_at.push_back(expected[i].data());
    got_at.push_back(received[i].get());
  }
  const auto gradient = [&](const std::vector<float*>& at) {
    return GruGradient{at[0], at[1], at[2], at[3], at[4], input.attention ? at[5] : nullptr};
  };
  const GruGradient wanted = gradient(wanted_at), got = gradient(got_at);
  scalar::GruGradients(input, forward.outputs.data(), forward.gates.data(), d_outputs.data(), d_last.data(), wanted);
  ctrlab_gru_gradient(&input, copies[0].get(), copies[1].get(), copies[2].get(), copies[3].get(), &got, &pool.parallel_for);
  const int64_t C = input.inputs, H = input.hidden;
  const char* names[] = {"x", "gates_kernel", "gates_bias", "candidate_kernel", "candidate_bias", "attention"};
  const int64_t widths[] = {C, 2 * H, 0, H, 0, 0};
  for (size_t i = 0; i < expected.size(); ++i) {
    CompareAll(
        std::string("gradient.") + names[i] + " must be the derivative of the sum of d_outputs * outputs and d_last * last.",
        name, expected[i], received[i].get(), widths[i]);
  }
  for (size_t i = 0; i < copies.size(); ++i) Untouched(name, *given[i], copies[i].get());
}

inline void Check(const std::string& kernel) {
  for (const Case& test : Cases()) {
    const Buffers buffers(test);
    for (const Pool& pool : pools) {
      const std::string name = Trying(test.name, pool);
      kernel == "gru" ? CheckForward(name, buffers, pool) : CheckGradient(name, buffers, pool);
      buffers.Unchanged(name);
    }
  }
}

inline const Entry entries[] = {
    {"gru", &ctrlab_gru != nullptr, "kernels/gru/gru.h", Check},
    {"gru_gradient", &ctrlab_gru_gradient != nullptr, "kernels/gru/gru.h", Check},
};

}  // namespace ctrlab::check::gru
