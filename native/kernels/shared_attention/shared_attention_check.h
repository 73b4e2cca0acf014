// Attention over shared histories on random and adversarial users, against its scalar twin.

#pragma once

#include "check/harness.h"
#include "kernels/shared_attention/shared_attention.h"
#include "kernels/shared_attention/shared_attention_scalar.h"

#pragma weak ctrlab_shared_attention

namespace ctrlab::check::shared_attention {

struct Case {
  std::string name;
  int64_t width;
  std::vector<int64_t> units;  // outputs of each layer; the last is 1
  std::vector<int64_t> lengths, candidates;
  bool near = false;  // each query lies close to an event of its user; the first layer reads little but their difference
};

inline std::vector<Case> Cases() {
  return {
      {"several users", 5, {7, 4, 1}, {3, 1, 6}, {2, 5, 1}},
      {"the contest's widths", 36, {80, 40, 1}, {7, 40}, {20, 3}},
      {"one sigmoid layer", 4, {18, 1}, {4, 2}, {3, 3}},
      {"four layers", 2, {3, 20, 2, 1}, {4, 2}, {3, 3}},
      {"no sigmoid layer", 6, {1}, {4, 2}, {3, 3}},
      {"widths of whole vectors", 16, {32, 16, 1}, {5}, {33}},
      {"more candidates than a block", 3, {4, 1}, {3}, {75}},
      {"more events than a block", 3, {4, 1}, {75}, {3}},
      {"more blocks than at once", 2, {3, 1}, {2}, {1100}},
      {"one candidate", 3, {4, 1}, {50}, {1}},
      {"users without candidates", 3, {4, 1}, {2, 3, 1}, {0, 2, 0}},
      {"users without events", 3, {4, 1}, {0, 3, 0}, {2, 1, 3}},
      {"no event at all", 3, {4, 1}, {0, 0}, {2, 1}},
      {"no users", 3, {4, 1}, {}, {}},
      {"one number an event", 1, {1, 1}, {2, 3}, {2, 1}},
      {"queries near an event", 18, {33, 4, 1}, {3, 1, 70}, {40, 2, 3}, true},
  };
}

// A case as kernels take it, in buffers of exactly its size.
struct Buffers {
  std::vector<int64_t> splits{0};
  std::vector<Floats> values;  // query, keys, then each layer's kernel and bias
  std::vector<std::unique_ptr<float[]>> copies;
  std::vector<DenseLayer> layers;
  SharedAttentionInput input;
  int64_t rows = 0, pairs = 0;

  explicit Buffers(const Case& test) {
    const int64_t C = test.width, users = std::ssize(test.lengths);
    for (int64_t u = 0; u < users; ++u) {
      splits.push_back(splits.back() + test.lengths[u]);
      rows += test.candidates[u];
      pairs += test.candidates[u] * test.lengths[u];
    }
    values = {RandomFloats(rows * C), RandomFloats(splits.back() * C)};
    int64_t in = 4 * C;
    for (int64_t units : test.units) {
      values.push_back(RandomFloats(in * units));
      for (float& x : values.back()) x /= std::sqrt(static_cast<float>(in));
      values.push_back(RandomFloats(units));
      in = units;
    }
    if (test.near) BringNear(test);
    for (const Floats& part : values) copies.push_back(Exactly(part));
    in = 4 * C;
    for (size_t l = 0; l < test.units.size(); ++l) {
      layers.push_back({copies[2 + 2 * l].get(), copies[3 + 2 * l].get(), in, test.units[l]});
      in = test.units[l];
    }
    input = {copies[0].get(), copies[1].get(),   splits.data(), test.candidates.data(), users, C,
             layers.data(),   std::ssize(layers)};
  }

 private:
  void BringNear(const Case& test) {
    const int64_t C = test.width;
    for (float& x : values[1]) x = 1e5f + 0.1f * x;
    for (float& x : values[0]) x *= 0.01f;
    for (int64_t u = 0, i = 0; u < std::ssize(test.lengths); ++u) {
      for (const int64_t end = i + test.candidates[u]; i < end; ++i) {
        const int64_t n = splits[u] + i % test.lengths[u];
        for (int64_t c = 0; c < C; ++c) values[0][i * C + c] += values[1][n * C + c];
      }
    }
    const int64_t part = C * test.units[0];  // numbers in each of Wq, Wk, Wd and Wp
    for (int64_t i = 0; i < 2 * part; ++i) values[2][i] *= 1e-6f;
    for (int64_t i = 3 * part; i < 4 * part; ++i) values[2][i] *= 1e-11f;
  }
};

inline float Largest(const Floats& values) {
  float largest = 1e-6f;
  for (float x : values) largest = std::max(largest, std::abs(x));
  return largest;
}

inline void Check(const std::string&) {
  for (const Case& test : Cases()) {
    const Buffers buffers(test);
    Floats expected(buffers.pairs), sums(buffers.rows * test.width);
    scalar::SharedAttention(buffers.input, expected.data(), sums.data());
    for (const Pool& pool : pools) {
      const std::string name = Trying(test.name, pool);
      const auto weights = Exactly(Nans(buffers.pairs)), attended = Exactly(Nans(std::ssize(sums)));
      ctrlab_shared_attention(&buffers.input, weights.get(), attended.get(), &pool.parallel_for);
      Compare("weights must be each pair's exp(score) over the sum of its candidate's.", name, expected,
              Floats(expected.size(), Largest(expected)), weights.get(), 0);
      Compare("attended[i, c] must be the candidate's sum of weight * key, 0 where the user has no event.", name, sums,
              Floats(sums.size(), Largest(sums)), attended.get(), test.width);
      for (size_t i = 0; i < buffers.values.size(); ++i) Untouched(name, buffers.values[i], buffers.copies[i].get());
    }
  }
}

inline const Entry entries[] = {
    {"shared_attention", &ctrlab_shared_attention != nullptr, "kernels/shared_attention/shared_attention.h", Check},
};

}  // namespace ctrlab::check::shared_attention
