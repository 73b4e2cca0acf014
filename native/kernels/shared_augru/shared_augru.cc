// An AUGRU over shared histories: x W once per event, then a block of one user's candidates at a time goes through the history.
// All its rows have one length, so no lane waits for another.

#include "kernels/shared_augru/shared_augru.h"

#include "kernels/candidate_blocks.h"
#include "kernels/simd_math.h"

namespace ctrlab {
namespace {

constexpr int64_t kEventsAtOnce = 64;

struct SharedAugru {
  const SharedAugruInput& input;
  const int64_t C = input.inputs, H = input.hidden, wide = Padded(3 * H);
  const LaneWeights of_gates{2 * H, H, input.gates_kernel + C * 2 * H, 2 * H};
  const LaneWeights of_candidate{H, H, input.candidate_kernel + C * H, H};
  const std::vector<float> of_inputs = InputWeights();

  int64_t ScratchFloats() const { return kMostLaneVectors * kLanes * 5 * H + 2 * wide; }

  // What all candidates share, `shared` [events, wide]: x W + b of the gates, then of the candidate.
  void Share(int64_t event, int64_t events, float* shared) const {
    for (int64_t n = 0; n < events; ++n) std::copy_n(of_inputs.data() + C * wide, wide, shared + n * wide);
    Gemm(true, events, wide, C, {input.x + event * C, C, 1}, of_inputs.data(), wide, shared, wide);
  }

  // attention: the pairs of the block's first row; last: its output.
  template <int V>
  void Block(int64_t rows, int64_t events, const float* shared, const float* attention, float* scratch, float* last) const {
    constexpr int64_t L = V * kLanes;
    float *h = scratch, *rh = h + H * L, *g = rh + H * L, *c = g + 2 * H * L, *first = c + H * L;  // [.][L] each
    std::fill_n(h, H * L, 0.0f);
    for (int64_t t = 0; t < events; ++t) {
      float kept[L];
      std::fill_n(kept, L, 1.0f);
      for (int64_t l = 0; l < rows; ++l) kept[l] = 1.0f - attention[l * events + t];
      const float* of_x = shared + t * wide;
      if (t == 0) {
        First<V>(of_x, kept, first, h);
        continue;
      }
      of_gates.Times<V>(h, [&](int64_t j, int) CTRLAB_INLINE { return Splat(of_x[j]); }, g);
      for (int64_t k = 0; k < H * L; k += kLanes) Store(rh + k, Sigmoid(Load(g + k)) * Load(h + k));
      of_candidate.Times<V>(rh, [&](int64_t j, int) CTRLAB_INLINE { return Splat(of_x[2 * H + j]); }, c);
      for (int64_t k = 0; k < H * L; k += kLanes) {
        const Vec update = Load(kept + k % L) * Sigmoid(Load(g + H * L + k)), candidate = Tanh(Load(c + k));
        Store(h + k, candidate + update * (Load(h + k) - candidate));
      }
    }
    for (int64_t l = 0; l < rows; ++l) {
      for (int64_t j = 0; j < H; ++j) last[l * H + j] = h[j * L + l];
    }
  }

 private:
  // [C + 1, wide]: the rows of x of both kernels, and the biases, beside each other.
  std::vector<float> InputWeights() const {
    std::vector<float> weights((C + 1) * wide);
    for (int64_t k = 0; k <= C; ++k) {
      const float* gates = k < C ? input.gates_kernel + k * 2 * H : input.gates_bias;
      const float* candidate = k < C ? input.candidate_kernel + k * H : input.candidate_bias;
      std::copy_n(candidate, H, std::copy_n(gates, 2 * H, weights.data() + k * wide));
    }
    return weights;
  }

  // The first event: the state before it is zero, so all candidates share its gates.
  template <int V>
  void First(const float* of_x, const float* kept, float* gates, float* h) const {
    float* candidates = gates + wide;
    for (int64_t j = 0; j < wide; j += kLanes) {
      Store(gates + j, Sigmoid(Load(of_x + j)));
      Store(candidates + j, Tanh(Load(of_x + j)));
    }
    for (int64_t k = 0; k < H * V * kLanes; k += kLanes) {
      const float u = gates[H + k / (V * kLanes)], candidate = candidates[2 * H + k / (V * kLanes)];
      Store(h + k, candidate - (Load(kept + k % (V * kLanes)) * u) * candidate);
    }
  }
};

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

void ctrlab_shared_augru(const SharedAugruInput* input, float* last, const ParallelFor* parallel_for) {
  const Offsets at(input->splits, input->candidates, input->users);
  std::vector<LaneBlock> blocks;
  for (int64_t u = 0; u < input->users; ++u) AddUser(u, input->candidates[u], &blocks);
  if (blocks.empty()) return;
  const SharedAugru augru{.input = *input};
  const int64_t H = augru.H, events = input->splits[input->users], groups = LaneGroups(blocks);
  const LaneScratch shared(1, events * augru.wide), scratch(groups, augru.ScratchFloats());
  (*parallel_for)((events + kEventsAtOnce - 1) / kEventsAtOnce, kEventsAtOnce * augru.wide * augru.C / kLanes,
                  [&](int64_t begin, int64_t end) {
                    for (int64_t n = begin * kEventsAtOnce; n < std::min(end * kEventsAtOnce, events); n += kEventsAtOnce) {
                      augru.Share(n, std::min(kEventsAtOnce, events - n), shared.of(0) + n * augru.wide);
                    }
                  });
  const int64_t steps = at.pairs.back() / (groups * kLanes) + 1;
  (*parallel_for)(groups, steps * 3 * H * (H + 30), [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      for (int64_t i = group; i < std::ssize(blocks); i += groups) {
        const LaneBlock& block = blocks[i];
        const int64_t u = block.user, from = input->splits[u], length = input->splits[u + 1] - from;
        WithLaneVectors(block.count, [&](auto V) {
          augru.Block<V>(block.count, length, shared.of(0) + from * augru.wide,
                         input->attention + at.pairs[u] + block.first * length, scratch.of(group),
                         last + (at.rows[u] + block.first) * H);
        });
      }
    }
  });
}
