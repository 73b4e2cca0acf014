// GRU and AUGRU, backward: one block of rows at a time goes back through its whole history. Each step's part of the weights'
// gradient is added at once, while it is in a cache. Each group of blocks has its own sums, which are added in a fixed order.

#include "kernels/gemm.h"
#include "kernels/gru/gru.h"
#include "kernels/gru/gru_blocks.h"

namespace ctrlab {
namespace {

constexpr int64_t L = kBlockRows;

// The scratch memory of a group. Element k of a lane matrix is at [k * L + lane].
struct Scratch {
  float *h, *rh;        // [H][L]: the state before the position, and r times it
  float *g, *d_g;       // [3H][L]: r, u, c; the gradients of the inputs of sigmoid and tanh
  float* d_x_h;         // [C + H][L]: of x, and of the state
  float* d_h;           // [H][L]: of the state before the position, accumulated
  float* joined[2];     // [L][K]: rows of [x, h, 1, 0...], and of [x, r * h, 1, 0...]
  float* d_kernels[2];  // [2H][K] and [H][K]: the transposed gradients of a kernel and its bias
  float *zeros, *nowhere;

  Scratch(float* at, int64_t C, int64_t H) {
    const int64_t K = Width(C, H), most = std::max(C, 3 * H);
    float** const pieces[] = {&h,     &rh,     &g, &d_g, &d_x_h, &d_h, &joined[0], &joined[1], &d_kernels[0], &d_kernels[1],
                              &zeros, &nowhere};
    const int64_t sizes[] = {H * L, H * L, 3 * H * L, 3 * H * L, (C + H) * L, H * L, L * K, L * K, 2 * H * K, H * K, most, most};
    for (size_t i = 0; i < std::size(sizes); ++i) {
      *pieces[i] = at;
      at += sizes[i];
    }
  }

  // The width of a row of `joined`; its last used number is the 1 that multiplies the bias.
  static int64_t Width(int64_t C, int64_t H) { return Padded(C + H + 1); }
  static int64_t Floats(int64_t C, int64_t H) {
    return L * (9 * H + C + H + 2 * Width(C, H)) + 3 * H * Width(C, H) + 2 * std::max(C, 3 * H);
  }
};

struct Backward {
  const GruInput& input;
  const int64_t C = input.inputs, H = input.hidden, K = Scratch::Width(C, H);
  const float *outputs, *gates, *d_outputs, *d_last;
  const GruGradient& gradient;
  const GruWeights of_gates{C + H, 2 * H, {input.gates_kernel, 2 * H, 1}};
  const GruWeights of_candidate{C + H, H, {input.candidate_kernel, H, 1}};

  void Start(const Scratch& s) const {
    std::fill_n(s.zeros, std::max(C, 3 * H), 0.0f);
    std::fill_n(s.d_kernels[0], 3 * H * K, 0.0f);
    for (float* joined : s.joined) {
      std::fill_n(joined, L * K, 0.0f);
      for (int64_t l = 0; l < L; ++l) joined[l * K + C + H] = 1.0f;
    }
  }

  void Block(const GruBlocks& blocks, int64_t i, const Scratch& s) const {
    const GruLanes lanes(input, blocks, i);
    float* d_h = s.d_x_h + C * L;
    std::fill_n(d_h, H * L, 0.0f);
    for (int64_t t = lanes.length[0]; t-- > 0;) {
      const int64_t live = lanes.Live(t);
      for (int64_t l = live; l-- > 0 && lanes.length[l] == t + 1;) {
        for (int64_t j = 0; j < H; ++j) d_h[j * L + l] = d_last[lanes.row[l] * H + j];
      }
      Load(lanes, t, live, s);
      GruAhead ahead(
          lanes, live,
          {{gradient.x, C, t}, {d_outputs, H, t - 1}, {gates, 3 * H, t - 1}, {outputs, H, t - 2}, {input.x, C, t - 1}});
      Gates(lanes, t, live, s);
      of_candidate.Times(false, s.d_g + 2 * H * L, s.d_x_h, ahead);
      Reset(s);
      of_gates.Times(true, s.d_g, s.d_x_h, ahead);
      float* to[L];
      lanes.At(t, live, gradient.x, C, s.nowhere, to);
      LanesToRows(s.d_x_h, L, C, to);
      Kernels(lanes, t, live, s);
    }
  }

 private:
  // Loads the kept values of position t, and adds d_outputs to the state's gradient. Lanes that have ended read zeros, so their
  // gradients are zeros.
  void Load(const GruLanes& lanes, int64_t t, int64_t live, const Scratch& s) const {
    const float* from[L];
    float *d_h = s.d_x_h + C * L, *d_out = s.d_h;
    lanes.At(t, live, d_outputs, H, static_cast<const float*>(s.zeros), from);
    RowsToLanes(from, H, d_out, L);
    for (int64_t k = 0; k < H * L; k += kLanes) Store(d_h + k, ctrlab::Load(d_h + k) + ctrlab::Load(d_out + k));
    lanes.At(t, live, gates, 3 * H, static_cast<const float*>(s.zeros), from);
    RowsToLanes(from, 3 * H, s.g, L);
    lanes.At(t - 1, t ? live : 0, outputs, H, static_cast<const float*>(s.zeros), from);
    RowsToLanes(from, H, s.h, L);
  }

  // The gradients of candidate and update gate, and of the attention.
  void Gates(const GruLanes& lanes, int64_t t, int64_t live, const Scratch& s) const {
    float kept[L], d_attention[L] = {};
    std::fill_n(kept, L, 1.0f);
    for (int64_t l = 0; input.attention && l < live; ++l) kept[l] = 1.0f - input.attention[lanes.first[l] + t];
    const float *d_new = s.d_x_h + C * L, *r = s.g, *u = r + H * L, *c = u + H * L;
    float *d_u = s.d_g + H * L, *d_c = d_u + H * L;
    for (int64_t k = 0; k < H * L; k += kLanes) {
      const Vec gate = ctrlab::Load(u + k), candidate = ctrlab::Load(c + k), before = ctrlab::Load(s.h + k);
      const Vec share = ctrlab::Load(kept + k % L), update = share * gate, d = ctrlab::Load(d_new + k);
      const Vec d_gate = d * (before - candidate) * gate;
      Store(d_c + k, d * (1.0f - update) * (1.0f - candidate * candidate));
      Store(d_u + k, d_gate * share * (1.0f - gate));
      Store(s.d_h + k, d * update);
      Store(s.rh + k, ctrlab::Load(r + k) * before);
      Store(d_attention + k % L, ctrlab::Load(d_attention + k % L) - d_gate);
    }
    for (int64_t l = 0; input.attention && l < live; ++l) gradient.attention[lanes.first[l] + t] = d_attention[l];
  }

  // The gradients of the reset gate, and of the state through the candidate.
  void Reset(const Scratch& s) const {
    float* d_rh = s.d_x_h + C * L;
    for (int64_t k = 0; k < H * L; k += kLanes) {
      const Vec d = ctrlab::Load(d_rh + k), r = ctrlab::Load(s.g + k);
      Store(s.d_g + k, d * ctrlab::Load(s.rh + k) * (1.0f - r));
      Store(d_rh + k, ctrlab::Load(s.d_h + k) + d * r);
    }
  }

  // Adds the step's part of d_kernel = joined^T d_g, including biases.
  void Kernels(const GruLanes& lanes, int64_t t, int64_t live, const Scratch& s) const {
    float* to[L];
    for (int64_t l = 0; l < L; ++l) {
      float *row = s.joined[0] + l * K, *reset_row = s.joined[1] + l * K;
      const bool running = l < live;
      const float* x = running ? input.x + (lanes.first[l] + t) * C : s.zeros;
      const float* before = running && t ? outputs + (lanes.first[l] + t - 1) * H : s.zeros;
      CopyRow(x, C, row);
      CopyRow(before, H, row + C);
      CopyRow(x, C, reset_row);
      to[l] = reset_row + C;
    }
    LanesToRows(s.rh, L, H, to);
    Gemm(true, 2 * H, K, L, {s.d_g, L, 1}, s.joined[0], K, s.d_kernels[0], K);
    Gemm(true, H, K, L, {s.d_g + 2 * H * L, L, 1}, s.joined[1], K, s.d_kernels[1], K);
  }
};

// Adds the transposed sums of all groups, in order, into kernel [K, J] and bias [J].
void Combine(const std::vector<Scratch>& groups, int which, int64_t inputs, int64_t J, int64_t K, float* kernel, float* bias) {
  for (int64_t j = 0; j < J; ++j) {
    for (int64_t k = 0; k <= inputs; ++k) {
      float sum = 0;
      for (const Scratch& s : groups) sum += s.d_kernels[which][j * K + k];
      (k < inputs ? kernel[k * J + j] : bias[j]) = sum;
    }
  }
}

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

void ctrlab_gru_gradient(const GruInput* input, const float* outputs, const float* gates, const float* d_outputs,
                         const float* d_last, const GruGradient* gradient, const ParallelFor* parallel_for) {
  const GruBlocks blocks(*input);
  const int64_t C = input->inputs, H = input->hidden;
  const Backward backward{
      .input = *input, .outputs = outputs, .gates = gates, .d_outputs = d_outputs, .d_last = d_last, .gradient = *gradient};
  const LaneScratch memory(blocks.groups(), Scratch::Floats(C, H));
  std::vector<Scratch> groups;
  for (int64_t group = 0; group < blocks.groups(); ++group) groups.emplace_back(memory.of(group), C, H);
  (*parallel_for)(blocks.groups(), 2 * blocks.CyclesPerGroup(*input), [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      backward.Start(groups[group]);
      for (int64_t i = group; i < blocks.count(); i += blocks.groups()) backward.Block(blocks, i, groups[group]);
    }
  });
  Combine(groups, 0, C + H, 2 * H, backward.K, gradient->gates_kernel, gradient->gates_bias);
  Combine(groups, 1, C + H, H, backward.K, gradient->candidate_kernel, gradient->candidate_bias);
}
