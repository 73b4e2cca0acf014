// The AUGRU over shared histories on random and adversarial users, against its scalar twin.

#pragma once

#include "check/harness.h"
#include "kernels/shared_augru/shared_augru.h"
#include "kernels/shared_augru/shared_augru_scalar.h"

#pragma weak ctrlab_shared_augru

namespace ctrlab::check::shared_augru {

struct Case {
  std::string name;
  int64_t inputs, hidden;
  std::vector<int64_t> lengths, candidates;
};

inline std::vector<Case> Cases() {
  return {
      {"several users", 5, 4, {3, 1, 6}, {2, 5, 1}},
      {"the models' widths", 36, 36, {7, 2}, {20, 3}},
      {"widths of whole vectors", 32, 16, {4}, {9}},
      {"widths of no vector", 17, 19, {4, 3}, {9, 2}},
      {"one input, one hidden", 1, 1, {4}, {3}},
      {"more candidates than a block", 3, 4, {3}, {75}},
      {"more blocks than at once", 2, 3, {2}, {1100}},
      {"more events than are shared at once", 2, 3, {130}, {2}},
      {"users without candidates", 3, 4, {2, 3, 1}, {0, 2, 0}},
      {"users without events", 3, 4, {0, 3, 0}, {2, 1, 3}},
      {"no event at all", 3, 4, {0, 0}, {2, 1}},
      {"no candidate at all", 3, 4, {2, 1}, {0, 0}},
      {"no users", 3, 4, {}, {}},
  };
}

// A case as kernels take it, in buffers of exactly its size.
struct Buffers {
  std::vector<int64_t> splits{0};
  std::vector<Floats> values;
  std::vector<std::unique_ptr<float[]>> copies;
  SharedAugruInput input;
  int64_t rows = 0;

  explicit Buffers(const Case& test) {
    const int64_t C = test.inputs, H = test.hidden, users = std::ssize(test.lengths);
    int64_t pairs = 0;
    for (int64_t u = 0; u < users; ++u) {
      splits.push_back(splits.back() + test.lengths[u]);
      rows += test.candidates[u];
      pairs += test.candidates[u] * test.lengths[u];
    }
    for (int64_t size : {splits.back() * C, (C + H) * 2 * H, 2 * H, (C + H) * H, H, pairs}) values.push_back(RandomFloats(size));
    for (Floats* weights : {&values[1], &values[3]}) {
      for (float& weight : *weights) weight /= std::sqrt(static_cast<float>(C + H));
    }
    for (float& a : values[5]) a = 1 / (1 + std::exp(-a));
    for (const Floats& each : values) copies.push_back(Exactly(each));
    input = {copies[0].get(),
             splits.data(),
             test.candidates.data(),
             copies[1].get(),
             copies[2].get(),
             copies[3].get(),
             copies[4].get(),
             copies[5].get(),
             users,
             C,
             H};
  }
};

inline void Check(const std::string&) {
  for (const Case& test : Cases()) {
    const Buffers buffers(test);
    Floats expected(buffers.rows * test.hidden);
    scalar::SharedAugru(buffers.input, expected.data());
    for (const Pool& pool : pools) {
      const std::string name = Trying(test.name, pool);
      const auto last = Exactly(Nans(std::ssize(expected)));
      ctrlab_shared_augru(&buffers.input, last.get(), &pool.parallel_for);
      Compare("last[i] must be the state after the last event of its user's history, zeros for a user without any.", name,
              expected, Floats(expected.size(), 1.0f), last.get(), test.hidden);
      for (size_t i = 0; i < buffers.values.size(); ++i) Untouched(name, buffers.values[i], buffers.copies[i].get());
    }
  }
}

inline const Entry entries[] = {
    {"shared_augru", &ctrlab_shared_augru != nullptr, "kernels/shared_augru/shared_augru.h", Check},
};

}  // namespace ctrlab::check::shared_augru
