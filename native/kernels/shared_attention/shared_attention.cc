// Attention over shared histories. With the first layer's kernel W = [Wq; Wk; Wd; Wp],
//
//   [q, k, q - k, q * k] W = q (Wq + Wd) + k (Wk - Wd) + (q * k) Wp
//
// so a pair needs one product of C numbers; the others are computed once per candidate and once per event. Lanes hold one side of
// a user's pairs, its candidates or its events, whichever fills whole vectors better; the other side comes one at a time.
//
// q Wd - k Wd may cancel, see attention_layer.h. Where a lane has |k - q| < |k| / 2 in a layer that cancels, the block takes all
// 4 C numbers of its pairs.

#include "kernels/shared_attention/shared_attention.h"

#include "kernels/attention/attention_layer.h"
#include "kernels/attention/softmax.h"
#include "kernels/candidate_blocks.h"

namespace ctrlab {
namespace {

// One side of a user's pairs: its rows [count, C], and their product with the first layer's part, [C, wide].
struct Side {
  const float* rows;
  int64_t count;
  const LaneWeights* weights;
  const float* padded;
};

struct SharedAttention {
  const SharedAttentionInput& input;
  const int64_t C = input.width;
  const FirstLayer first{input.layers[0], C};
  const LaneWeights of_query{first.out, C, first.query.data(), first.wide};
  const LaneWeights of_keys{first.out, C, first.keys.data(), first.wide};
  const LaneWeights cross{first.out, C, first.cross.data(), first.wide};
  const LaneWeights whole{first.cancels ? first.out : 0, 4 * C, input.layers[0].kernel, first.out};
  const std::vector<LaneWeights> above = Above();

  // Whether a user's events are the lanes.
  bool OverEvents(int64_t candidates, int64_t events) const { return Padded(events) * candidates < Padded(candidates) * events; }

  Side Queries(int64_t row, int64_t count) const { return {input.query + row * C, count, &of_query, first.query.data()}; }
  Side Keys(int64_t event, int64_t count) const { return {input.keys + event * C, count, &of_keys, first.keys.data()}; }

  int64_t ScratchFloats() const {
    int64_t rows = 5 * C + first.out;
    for (int64_t l = 0; l < input.layer_count; ++l) rows += input.layers[l].out;
    return rows * kMostLaneVectors * kLanes;
  }

  // Lanes [from, from + count) of `lanes` with each row of `others`, whose shared sums are `of_others` [count, wide]. Calls
  // put(number of the other row, scores of the lanes).
  template <int V, class Put>
  void Scores(const Side& lanes, int64_t from, int64_t count, const Side& others, const float* of_others, bool over_events,
              float* scratch, const Put& put) const {
    constexpr int64_t L = V * kLanes;
    float *side = scratch, *x = side + C * L, *of_lanes = x + 4 * C * L, *h = of_lanes + first.out * L;  // [.][L] each
    ToLanes<V>(lanes.rows + from * C, count, C, side);
    lanes.weights->Times<V>(side, [](int64_t, int) CTRLAB_INLINE { return Vec{}; }, of_lanes);
    for (int64_t n = 0; n < others.count; ++n) {
      const float *other = others.rows + n * C, *of_other = of_others + n * first.wide;
      if (first.cancels && HasNear<V>(side, other, over_events)) {
        All<V>(side, other, over_events, x);
        const float* bias = input.layers[0].bias;
        whole.Times<V>(x, [&](int64_t u, int) CTRLAB_INLINE { return Splat(bias[u]); }, h);
      } else {
        for (int64_t c = 0; c < C; ++c) {
          for (int64_t l = c * L; l < (c + 1) * L; l += kLanes) Store(x + l, Load(side + l) * other[c]);
        }
        cross.Times<V>(x, [&](int64_t u, int v) CTRLAB_INLINE { return Load(of_lanes + u * L + v * kLanes) + of_other[u]; }, h);
      }
      put(n, Layers<V>(h));
    }
  }

 private:
  std::vector<LaneWeights> Above() const {
    std::vector<LaneWeights> layers;
    for (int64_t l = 1; l < input.layer_count; ++l) {
      const DenseLayer& layer = input.layers[l];
      layers.emplace_back(layer.out, layer.in, layer.kernel, layer.out);
    }
    return layers;
  }

  // The first layer's sums h -> the scores of the lanes.
  template <int V>
  const float* Layers(float* h) const {
    constexpr int64_t L = V * kLanes;
    for (int64_t l = 1; l < input.layer_count; ++l) {
      const int64_t in = input.layers[l].in;
      for (int64_t k = 0; k < in * L; k += kLanes) Store(h + k, Sigmoid(Load(h + k)));
      const float* bias = input.layers[l].bias;
      above[l - 1].Times<V>(h, [&](int64_t u, int) CTRLAB_INLINE { return Splat(bias[u]); }, h + in * L);
      h += in * L;
    }
    return h;
  }

  // Whether |k - q| < |k| / 2 in any lane.
  template <int V>
  bool HasNear(const float* side, const float* other, bool over_events) const {
    bool near = false;
    for (int v = 0; v < V; ++v) {
      Vec nearer = {};
      for (int64_t c = 0; c < C; ++c) {
        const Vec lane = Load(side + (c * V + v) * kLanes), apart = 2.0f * (lane - other[c]);
        const Vec key = over_events ? lane : Splat(other[c]);
        nearer += key * key - apart * apart;
      }
      for (int64_t l = 0; l < kLanes; ++l) near |= nearer[l] > 0;
    }
    return near;
  }

  // x [4 C][L] = [q, k, q - k, q * k]
  template <int V>
  void All(const float* side, const float* other, bool over_events, float* x) const {
    constexpr int64_t L = V * kLanes;
    for (int64_t c = 0; c < C; ++c) {
      for (int64_t l = c * L; l < (c + 1) * L; l += kLanes) {
        const Vec lane = Load(side + l), one = Splat(other[c]), q = over_events ? one : lane, k = over_events ? lane : one;
        Store(x + l, q);
        Store(x + C * L + l, k);
        Store(x + 2 * C * L + l, q - k);
        Store(x + 3 * C * L + l, q * k);
      }
    }
  }
};

// scores [events] -> weights, in place; sum [C] = the weighted sum of the keys.
void Pool(const float* keys, int64_t events, int64_t C, float* scores, float* sum) {
  std::fill_n(sum, C, 0.0f);
  if (events == 0) return;
  Softmax(scores, events, scores);
  for (int64_t n = 0; n < events; ++n) AddScaled(sum, scores[n], keys + n * C, C);
}

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

void ctrlab_shared_attention(const SharedAttentionInput* input, float* weights, float* attended,
                             const ParallelFor* parallel_for) {
  const Offsets at(input->splits, input->candidates, input->users);
  const SharedAttention attention{.input = *input};
  const int64_t C = input->width, wide = attention.first.wide, U1 = attention.first.out;
  std::vector<LaneBlock> blocks;
  std::vector<bool> over_events;
  std::vector<int64_t> others{0};  // where the shared sums of each user's other side begin
  for (int64_t u = 0; u < input->users; ++u) {
    const int64_t candidates = input->candidates[u], events = input->splits[u + 1] - input->splits[u];
    over_events.push_back(attention.OverEvents(candidates, events));
    if (candidates > 0 && events > 0) AddUser(u, over_events[u] ? events : candidates, &blocks);
    others.push_back(others.back() + (over_events[u] ? candidates : events));
  }
  const auto sides = [&](int64_t u) {
    const Side queries = attention.Queries(at.rows[u], input->candidates[u]);
    const Side keys = attention.Keys(input->splits[u], input->splits[u + 1] - input->splits[u]);
    return over_events[u] ? std::pair(keys, queries) : std::pair(queries, keys);
  };
  const int64_t groups = LaneGroups(blocks);
  const LaneScratch shared(1, others.back() * wide), scratch(groups, attention.ScratchFloats());
  (*parallel_for)(input->users, others.back() / std::max<int64_t>(1, input->users) * U1 * C / kLanes,
                  [&](int64_t begin, int64_t end) {
                    for (int64_t u = begin; u < end; ++u) {
                      const Side other = sides(u).second;
                      float* to = shared.of(0) + others[u] * wide;
                      for (int64_t n = 0; n < other.count; ++n) {
                        std::copy_n(input->layers[0].bias, U1, to + n * wide);
                        std::fill_n(to + n * wide + U1, wide - U1, 0.0f);
                      }
                      Gemm(true, other.count, wide, C, {other.rows, C, 1}, other.padded, wide, to, wide);
                    }
                  });
  const int64_t pairs = at.pairs.back() / std::max<int64_t>(1, groups);
  (*parallel_for)(groups, pairs*(Kept(input->layers, input->layer_count) + C) * 4, [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      for (int64_t i = group; i < std::ssize(blocks); i += groups) {
        const auto [u, from, count] = blocks[i];
        const auto [lanes, other] = sides(u);
        // A pair's place is candidate * events + event.
        const int64_t events = input->splits[u + 1] - input->splits[u];
        const int64_t lane_step = over_events[u] ? 1 : events, other_step = over_events[u] ? events : 1;
        float* scores = weights + at.pairs[u] + from * lane_step;
        const auto put = [&, count = count](int64_t n, const float* of_lanes) {
          for (int64_t l = 0; l < count; ++l) scores[l * lane_step + n * other_step] = of_lanes[l];
        };
        WithLaneVectors(count, [&, u = u, from = from, count = count, lanes = lanes, other = other](auto V) {
          attention.Scores<V>(lanes, from, count, other, shared.of(0) + others[u] * wide, over_events[u], scratch.of(group), put);
        });
      }
    }
  });
  (*parallel_for)(at.rows.back(), 50 + at.pairs.back() / std::max<int64_t>(1, at.rows.back()) * (10 + C / 4),
                  [&](int64_t begin, int64_t end) {
                    int64_t u = std::upper_bound(at.rows.begin(), at.rows.end(), begin) - at.rows.begin() - 1;
                    for (int64_t i = begin; i < end; ++i) {
                      while (i >= at.rows[u + 1]) ++u;
                      const int64_t from = input->splits[u], events = input->splits[u + 1] - from;
                      Pool(input->keys + from * C, events, C, weights + at.pairs[u] + (i - at.rows[u]) * events,
                           attended + i * C);
                    }
                  });
}
