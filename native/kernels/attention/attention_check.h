// The attention kernels on random and adversarial batches, against their scalar twins.

#pragma once

#include "check/harness.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_scalar.h"

#pragma weak ctrlab_attention_scores
#pragma weak ctrlab_attention_pool
#pragma weak ctrlab_attention_gradient

namespace ctrlab::check::attention {

struct Case {
  std::string name;
  int64_t width;
  std::vector<int64_t> units;  // outputs of each layer; the last is 1
  std::vector<int64_t> lengths;
  float scale = 1;    // the keys are multiplied by it
  bool near = false;  // keys lie close to their query, and the first layer reads little but the difference
  float shift = 0;    // added to the scores of the softmax
};

inline std::vector<int64_t> RandomLengths(int64_t rows, int64_t most) {
  std::vector<int64_t> lengths(rows);
  for (int64_t& length : lengths) length = Uniform(0, most);
  return lengths;
}

inline std::vector<Case> Cases() {
  return {
      {"histories of several lengths", 5, {7, 4, 1}, RandomLengths(9, 12)},
      {"the contest's widths", 36, {80, 40, 1}, RandomLengths(20, 9)},
      {"several blocks of rows", 3, {5, 1}, RandomLengths(300, 9)},
      {"a history longer than a tile", 4, {6, 3, 1}, {3, 200, 0, 65}},
      {"one sigmoid layer", 4, {18, 1}, RandomLengths(5, 6)},
      {"four layers", 2, {3, 20, 2, 1}, RandomLengths(5, 6)},
      {"no sigmoid layer", 6, {1}, RandomLengths(5, 6)},
      {"widths of whole vectors", 16, {32, 16, 1}, RandomLengths(5, 20)},
      {"rows without events", 3, {4, 1}, {0, 2, 0, 0, 1, 0}},
      {"no event in the whole batch", 3, {4, 1}, {0, 0}},
      {"one event a row", 3, {4, 1}, {1, 1, 1}},
      {"a batch of one row", 3, {4, 1}, {5}},
      {"a batch of no rows", 3, {4, 1}, {}},
      {"one number an event", 1, {1, 1}, {2, 3}},
      {"events far from 0", 4, {6, 1}, {4, 17}, 30},
      {"events near their query", 18, {33, 4, 1}, {3, 0, 70, 1, 9}, 0.1f, true},
      {"large scores", 4, {6, 1}, {4, 17, 0}, 1, false, 200},
      {"scores far below 0", 4, {6, 1}, {4, 17, 0}, 1, false, -200},
  };
}

// A case as kernels take it; every buffer is copied anew for each pool, so that a stray write is seen.
struct Buffers {
  std::vector<Floats> values;
  std::vector<std::unique_ptr<float[]>> copies;
  std::unique_ptr<int64_t[]> splits;
  std::vector<DenseLayer> layers;
  AttentionInput input;
  int64_t events = 0;

  Buffers(const Case& test, const std::vector<Floats>& from) : values(from), splits(new int64_t[test.lengths.size() + 1]) {
    for (const Floats& part : values) copies.push_back(Exactly(part));
    const int64_t rows = std::ssize(test.lengths);
    splits[0] = 0;
    for (int64_t b = 0; b < rows; ++b) splits[b + 1] = splits[b] + test.lengths[b];
    events = splits[rows];
    int64_t in = 4 * test.width;
    for (size_t l = 0; l < test.units.size(); ++l) {
      layers.push_back({copies[2 + 2 * l].get(), copies[3 + 2 * l].get(), in, test.units[l]});
      in = test.units[l];
    }
    input = {copies[0].get(), copies[1].get(), splits.get(), rows, test.width, layers.data(), std::ssize(layers)};
  }

  // query, keys, then each layer's kernel and bias.
  static std::vector<Floats> Random(const Case& test) {
    const int64_t rows = std::ssize(test.lengths);
    int64_t events = 0, in = 4 * test.width;
    for (int64_t length : test.lengths) events += length;
    std::vector<Floats> values = {RandomFloats(rows * test.width), RandomFloats(events * test.width)};
    for (float& x : values[1]) x *= test.scale;
    for (int64_t units : test.units) {
      values.push_back(RandomFloats(in * units));
      for (float& x : values.back()) x /= std::sqrt(static_cast<float>(in));
      values.push_back(RandomFloats(units));
      in = units;
    }
    if (!test.near) return values;
    int64_t n = 0;
    for (int64_t b = 0; b < rows; ++b) {
      for (const int64_t end = n + test.lengths[b]; n < end; ++n) {
        for (int64_t c = 0; c < test.width; ++c) values[1][n * test.width + c] += values[0][b * test.width + c];
      }
    }
    for (int64_t i = 0; i < 2 * test.width * test.units[0]; ++i) values[2][i] *= 0.1f;
    return values;
  }

  void Untouched(const std::string& name) const {
    for (size_t i = 0; i < values.size(); ++i) check::Untouched(name, values[i], copies[i].get());
  }
};

inline float Largest(const Floats& values, float least = 1e-6f) {
  for (float x : values) least = std::max(least, std::abs(x));
  return least;
}

// Rounding grows with the largest terms of a sum. So the error of an element near 0 is compared with the size of its tensor, or
// with `least`.
inline void CompareTensor(const std::string& rule, const std::string& name, const Floats& expected, const float* received,
                          int64_t width, float least = 1e-6f) {
  Compare(rule, name, expected, Floats(expected.size(), Largest(expected, least)), received, width);
}

inline void Scores(const std::string& name, const Buffers& buffers, const Pool& pool) {
  const int64_t N = buffers.events, kept_floats = N * Kept(buffers.layers.data(), std::ssize(buffers.layers));
  Floats expected(N), expected_kept(kept_floats, NAN);
  scalar::AttentionScores(buffers.input, expected.data(), expected_kept.data());
  const auto scores = Exactly(Nans(N)), kept = Exactly(Nans(kept_floats));
  ctrlab_attention_scores(&buffers.input, scores.get(), kept.get(), &pool.parallel_for);
  CompareTensor("scores[n] must be MLP([q, k, q - k, q * k]) of event n and its row's query.", name, expected, scores.get(), 0);
  for (int64_t i = 0; i < kept_floats; ++i) {
    if (std::isnan(expected_kept[i])) expected_kept[i] = kept[i] = 0;  // padding may hold anything
  }
  CompareTensor("kept must hold each sigmoid's outputs, layer by layer.", name, expected_kept, kept.get(), 0);
}

inline void PoolOf(const std::string& name, const Buffers& buffers, const Floats& score_values, const Pool& pool) {
  const int64_t N = buffers.events, outputs = buffers.input.rows * buffers.input.width;
  Floats expected_weights(N), expected(outputs);
  scalar::AttentionPool(buffers.input, score_values.data(), expected_weights.data(), expected.data());
  const auto scores = Exactly(score_values), weights = Exactly(Nans(N)), attended = Exactly(Nans(outputs));
  ctrlab_attention_pool(&buffers.input, scores.get(), weights.get(), attended.get(), &pool.parallel_for);
  CompareTensor("weights[n] must be exp(score) over the sum of the row's.", name, expected_weights, weights.get(), 0);
  CompareTensor("attended[b, c] must be the row's sum of weight * key, 0 where the row has no event.", name, expected,
                attended.get(), buffers.input.width);
  check::Untouched(name, score_values, scores.get());
}

// Gradient buffers in the shapes of the inputs, full of NaN or of zeros.
struct Gradients {
  std::vector<std::unique_ptr<float[]>> parts;
  std::vector<DenseGradient> layers;
  AttentionGradient out;

  explicit Gradients(const Buffers& buffers) {
    for (const Floats& part : buffers.values) parts.push_back(Exactly(Nans(std::ssize(part))));
    for (size_t l = 0; l < buffers.layers.size(); ++l) layers.push_back({parts[2 + 2 * l].get(), parts[3 + 2 * l].get()});
    out = {parts[0].get(), parts[1].get(), layers.data()};
  }
};

inline void Gradient(const std::string& name, const Buffers& buffers, const Floats& d_weights, const Floats& d_attended,
                     const Pool& pool) {
  const int64_t N = buffers.events;
  Floats scores(N), kept(N * Kept(buffers.layers.data(), std::ssize(buffers.layers))), weights(N), attended(d_attended.size());
  scalar::AttentionScores(buffers.input, scores.data(), kept.data());
  scalar::AttentionPool(buffers.input, scores.data(), weights.data(), attended.data());
  const Gradients expected(buffers), received(buffers), first(buffers);
  scalar::AttentionGradient(buffers.input, weights.data(), d_weights.data(), d_attended.data(), expected.out);
  auto run = [&](const ParallelFor& parallel_for, const Gradients& into) {
    const auto w = Exactly(weights), k = Exactly(kept), dw = Exactly(d_weights), da = Exactly(d_attended);
    ctrlab_attention_gradient(&buffers.input, w.get(), k.get(), dw.get(), da.get(), &into.out, &parallel_for);
  };
  run(pool.parallel_for, received);
  run(pools[0].parallel_for, first);
  float largest = 0;  // the last bias shifts all scores equally: its gradient is 0, a sum of terms that cancel
  for (size_t i = 0; i < buffers.values.size(); ++i) {
    largest = Largest(Floats(expected.parts[i].get(), expected.parts[i].get() + buffers.values[i].size()), largest);
  }
  for (size_t i = 0; i < buffers.values.size(); ++i) {
    const float* e = expected.parts[i].get();
    const std::string what = i == 0   ? "query"
                             : i == 1 ? "keys"
                                      : "layer " + std::to_string((i - 2) / 2) + (i % 2 ? "'s bias" : "'s kernel");
    const Floats values(e, e + buffers.values[i].size());
    CompareTensor("The gradient of " + what + " must be that of the definition.", name, values, received.parts[i].get(), 0,
                  0.1f * largest);
    const Floats bits(first.parts[i].get(), first.parts[i].get() + values.size());
    if (!bits.empty() && std::memcmp(bits.data(), received.parts[i].get(), bits.size() * sizeof(float)) != 0) {
      Fail("A gradient must have the same bits however the work is cut.", name, "\"the same\"", "\"other bits, in " + what + "\"",
           "[]");
    }
  }
}

inline void Check(const std::string& kernel) {
  for (const Case& test : Cases()) {
    const std::vector<Floats> values = Buffers::Random(test);
    const int64_t rows = std::ssize(test.lengths), events = std::ssize(values[1]) / test.width;
    const Floats scores = RandomFloats(events), d_attended = RandomFloats(rows * test.width);
    for (const Pool& pool : pools) {
      const std::string name = Trying(test.name, pool);
      const Buffers buffers(test, values);
      if (kernel == "attention_scores") {
        Scores(name, buffers, pool);
      } else if (kernel == "attention_pool") {
        Floats shifted = scores;
        for (float& score : shifted) score += test.shift;
        PoolOf(name, buffers, shifted, pool);
      } else {
        Gradient(name, buffers, scores, d_attended, pool);
      }
      buffers.Untouched(name);
    }
  }
}

inline const Entry entries[] = {
    {"attention_scores", &ctrlab_attention_scores != nullptr, "kernels/attention/attention.h", Check},
    {"attention_pool", &ctrlab_attention_pool != nullptr, "kernels/attention/attention.h", Check},
    {"attention_gradient", &ctrlab_attention_gradient != nullptr, "kernels/attention/attention.h", Check},
};

}  // namespace ctrlab::check::attention
