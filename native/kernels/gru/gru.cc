// GRU and AUGRU, forward: one block of rows at a time goes through its whole history, with state and gates in the L1 cache.

#include "kernels/gru/gru.h"

#include "kernels/gemm.h"
#include "kernels/gru/gru_blocks.h"
#include "kernels/simd_math.h"

namespace ctrlab {
namespace {

constexpr int64_t L = kBlockRows;

// out[j][lane] = bias[j]
void Fill(const float* bias, int64_t n, float* out) {
  for (int64_t j = 0; j < n; ++j) std::fill_n(out + j * L, L, bias[j]);
}

struct Forward {
  const GruInput& input;
  const int64_t C = input.inputs, H = input.hidden;
  float *outputs, *last, *gates;
  const GruWeights of_gates{2 * H, C + H, {input.gates_kernel, 1, 2 * H}};
  const GruWeights of_candidate[2] = {{H, C, {input.candidate_kernel, 1, H}}, {H, H, {input.candidate_kernel + C * H, 1, H}}};

  int64_t ScratchFloats() const { return L * (C + 5 * H) + std::max(C, 3 * H) + 3 * H; }

  void Block(const GruBlocks& blocks, int64_t i, float* scratch) const {
    const GruLanes lanes(input, blocks, i);
    float* x = scratch;  // [C][L], then h [H][L] right after it: [x, h] is one matrix
    float* h = x + C * L;
    float* rh = h + H * L;  // [H][L]
    float* g = rh + H * L;  // [3H][L]: r, u, c
    float* zeros = g + 3 * H * L;
    float* nowhere = zeros + std::max(C, 3 * H);
    std::fill_n(h, H * L, 0.0f);
    std::fill_n(zeros, std::max(C, 3 * H), 0.0f);
    for (int64_t l = 0; l < blocks.size(i); ++l) {
      if (lanes.length[l] == 0) std::fill_n(last + lanes.row[l] * H, H, 0.0f);
    }
    for (int64_t t = 0; t < lanes.length[0]; ++t) {
      const int64_t live = lanes.Live(t);
      const float* from[L];
      float* to[L];
      lanes.At<const float>(t, live, input.x, C, zeros, from);
      RowsToLanes(from, C, x, L);
      GruAhead ahead(lanes, live, {{input.x, C, t + 1}, {gates, 3 * H, t}, {outputs, H, t}});
      Gates(x, h, rh, g, ahead);
      Step(lanes, t, live, g, h);
      lanes.At(t, live, gates, 3 * H, nowhere, to);
      LanesToRows(g, L, 3 * H, to);
      lanes.At(t, live, outputs, H, nowhere, to);
      LanesToRows(h, L, H, to);
      for (int64_t l = live; l-- > 0 && lanes.length[l] == t + 1;) std::copy_n(to[l], H, last + lanes.row[l] * H);
    }
  }

 private:
  // r, u and c of all lanes; rh = r * h.
  void Gates(const float* x, const float* h, float* rh, float* g, GruAhead& ahead) const {
    Fill(input.gates_bias, 2 * H, g);
    of_gates.Times(true, x, g, ahead);
    for (int64_t k = 0; k < 2 * H * L; k += kLanes) Store(g + k, Sigmoid(Load(g + k)));
    for (int64_t k = 0; k < H * L; k += kLanes) Store(rh + k, Load(g + k) * Load(h + k));
    float* c = g + 2 * H * L;
    Fill(input.candidate_bias, H, c);
    of_candidate[0].Times(true, x, c, ahead);
    of_candidate[1].Times(true, rh, c, ahead);
    for (int64_t k = 0; k < H * L; k += kLanes) Store(c + k, Tanh(Load(c + k)));
  }

  void Step(const GruLanes& lanes, int64_t t, int64_t live, const float* g, float* h) const {
    float kept[L];
    std::fill_n(kept, L, 1.0f);
    for (int64_t l = 0; input.attention && l < live; ++l) kept[l] = 1.0f - input.attention[lanes.first[l] + t];
    const float *u = g + H * L, *c = u + H * L;
    for (int64_t k = 0; k < H * L; k += kLanes) {
      const Vec update = Load(kept + k % L) * Load(u + k), candidate = Load(c + k);
      Store(h + k, candidate + update * (Load(h + k) - candidate));
    }
  }
};

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

void ctrlab_gru(const GruInput* input, float* outputs, float* last, float* gates, const ParallelFor* parallel_for) {
  const GruBlocks blocks(*input);
  if (blocks.count() == 0) return;
  const Forward forward{.input = *input, .outputs = outputs, .last = last, .gates = gates};
  const LaneScratch scratch(blocks.groups(), forward.ScratchFloats());
  (*parallel_for)(blocks.groups(), blocks.CyclesPerGroup(*input), [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      for (int64_t i = group; i < blocks.count(); i += blocks.groups()) forward.Block(blocks, i, scratch.of(group));
    }
  });
}
