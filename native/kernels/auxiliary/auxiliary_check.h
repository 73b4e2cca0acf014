// The kernel of DIEN's auxiliary loss on random and adversarial batches, against its scalar twin.

#pragma once

#include "check/harness.h"
#include "kernels/auxiliary/auxiliary.h"
#include "kernels/auxiliary/auxiliary_scalar.h"

#pragma weak ctrlab_auxiliary

namespace ctrlab::check::auxiliary {

struct Case {
  std::string name;
  int64_t hidden, width;
  std::vector<int64_t> units, lengths;
};

inline std::vector<int64_t> RandomLengths(int64_t rows, int64_t most) {
  std::vector<int64_t> lengths(rows);
  for (int64_t& length : lengths) length = Uniform(0, most);
  return lengths;
}

inline std::vector<Case> Cases() {
  return {
      {"histories of several lengths", 5, 4, {7, 4, 1}, RandomLengths(9, 12)},
      {"the contest's widths", 36, 36, {100, 50, 1}, RandomLengths(20, 9)},
      {"several blocks of rows", 3, 2, {5, 1}, RandomLengths(300, 9)},
      {"a history longer than a tile", 4, 4, {6, 3, 1}, {3, 200, 0, 65}},
      {"no sigmoid layer", 6, 3, {1}, RandomLengths(5, 6)},
      {"widths of whole vectors", 16, 32, {32, 16, 1}, RandomLengths(5, 20)},
      {"rows without events", 3, 3, {4, 1}, {0, 2, 0, 0, 1, 0}},
      {"no event has a next one", 3, 3, {4, 1}, {1, 0, 1}},
      {"no event in the whole batch", 3, 3, {4, 1}, {0, 0}},
      {"a batch of no rows", 3, 3, {4, 1}, {}},
      {"one number each", 1, 1, {1, 1}, {2, 3}},
  };
}

inline void Check(const std::string&) {
  for (const Case& test : Cases()) {
    const int64_t rows = std::ssize(test.lengths), parts = 3 + 2 * std::ssize(test.units);
    const std::unique_ptr<int64_t[]> splits(new int64_t[rows + 1]);
    splits[0] = 0;
    for (int64_t b = 0; b < rows; ++b) splits[b + 1] = splits[b] + test.lengths[b];
    const int64_t N = splits[rows];
    std::vector<Floats> values = {RandomFloats(N * test.hidden), RandomFloats(N * test.width), RandomFloats(N * test.width)};
    for (int64_t in = test.hidden + test.width; int64_t units : test.units) {
      values.push_back(RandomFloats(in * units)), values.push_back(RandomFloats(units));
      in = units;
    }
    // Runs `kernel` on fresh copies; loss and gradients, one after another.
    auto run = [&](const std::string& name, auto&& kernel) {
      std::vector<std::unique_ptr<float[]>> inputs, outputs;
      for (const Floats& part : values) inputs.push_back(Exactly(part)), outputs.push_back(Exactly(Nans(std::ssize(part))));
      std::vector<DenseLayer> layers;
      std::vector<DenseGradient> gradients;
      for (int64_t l = 0, in = test.hidden + test.width; l < std::ssize(test.units); in = test.units[l++]) {
        layers.push_back({inputs[3 + 2 * l].get(), inputs[4 + 2 * l].get(), in, test.units[l]});
        gradients.push_back({outputs[3 + 2 * l].get(), outputs[4 + 2 * l].get()});
      }
      const AuxiliaryInput input{inputs[0].get(), inputs[1].get(), inputs[2].get(), splits.get(),      rows,
                                 test.hidden,     test.width,      layers.data(),   std::ssize(layers)};
      const AuxiliaryGradient out{outputs[0].get(), outputs[1].get(), outputs[2].get(), gradients.data()};
      std::vector<Floats> found = {Nans(1)};
      kernel(input, found[0].data(), out);
      for (int64_t i = 0; i < parts; ++i) {
        Untouched(name, values[i], inputs[i].get());
        found.emplace_back(outputs[i].get(), outputs[i].get() + values[i].size());
      }
      return found;
    };
    const auto expected =
        run(test.name, [](const auto& input, float* loss, const auto& out) { scalar::Auxiliary(input, loss, out); });
    std::vector<Floats> first;
    for (const Pool& pool : pools) {
      const std::string name = Trying(test.name, pool);
      const auto received = run(name, [&](const auto& input, float* loss, const auto& out) {
        ctrlab_auxiliary(&input, loss, &out, &pool.parallel_for);
      });
      for (size_t i = 0; i < expected.size(); ++i) {
        float most = 1e-6f;
        for (float x : expected[i]) most = std::max(most, std::abs(x));
        const std::string rule = i == 0 ? "The loss must be that of the definition."
                                        : "The gradient of input " + std::to_string(i - 1) + " must be that of the definition.";
        Compare(rule, name, expected[i], Floats(expected[i].size(), most), received[i].data(), 0);
      }
      if (first.empty()) first = received;
      if (first != received)
        Fail("The bits must be the same however the work is cut.", name, "\"the same\"", "\"other bits\"", "[]");
    }
  }
}

inline const Entry entries[] = {
    {"auxiliary", &ctrlab_auxiliary != nullptr, "kernels/auxiliary/auxiliary.h", Check},
};

}  // namespace ctrlab::check::auxiliary
