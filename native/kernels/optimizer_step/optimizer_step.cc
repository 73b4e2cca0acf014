// The optimizer's kernel: splits every variable into pieces of about equal size, and each piece into vectors.

#include "kernels/optimizer_step/optimizer_step.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "kernels/optimizer_step/optimizer_rules.h"
#include "kernels/simd.h"

namespace ctrlab {
namespace {

constexpr int64_t kAhead = 8;  // distance between the row that is prefetched and the row that is updated

struct Piece {
  const StepVariable* variable;
  int64_t begin, end;  // rows if the variable has ids, else numbers
};

template <int Slots>
StepRow<Slots> RowOf(const StepVariable& v, int64_t place, int64_t from) {
  float* w = v.weights + place;
  return {w, Slots > 0 ? v.slots[0] + place : w, Slots > 1 ? v.slots[1] + place : w, v.gradient + from};
}

template <class Rule>
void StepPiece(const Rule& rule, const Piece& piece, float scale) {
  const StepVariable& v = *piece.variable;
  if (!v.ids) {
    Step(rule, RowOf<Rule::kSlots>(v, piece.begin, piece.begin), piece.end - piece.begin, scale);
    return;
  }
  for (int64_t r = piece.begin; r < piece.end; ++r) {
    if (r + kAhead < piece.end) {
      const StepRow<Rule::kSlots> ahead = RowOf<Rule::kSlots>(v, v.ids[r + kAhead] * v.dim, 0);
      for (int64_t o = 0; o < v.dim; o += kLanes) {
        for (const float* p : {ahead.w, ahead.a, ahead.b}) Prefetch(p + o, 0);
      }
    }
    Step(rule, RowOf<Rule::kSlots>(v, v.ids[r] * v.dim, r * v.dim), v.dim, scale);
  }
}

double SquaresOf(const Piece& piece) {
  const StepVariable& v = *piece.variable;
  const int64_t unit = v.ids ? v.dim : 1;
  return SumOfSquares(v.gradient + piece.begin * unit, (piece.end - piece.begin) * unit);
}

template <class Rule>
void Run(const Rule& update, const std::vector<Piece>& pieces, const std::vector<float>& scales, const StepVariable* variables,
         const ParallelFor& parallel_for) {
  parallel_for(std::ssize(pieces), 4 * kPiece, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) StepPiece(update, pieces[k], scales[pieces[k].variable - variables]);
  });
}

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

void ctrlab_optimizer_step(const StepRule* rule, const StepVariable* variables, int64_t count, const ParallelFor* parallel_for) {
  std::vector<Piece> pieces;
  for (const StepVariable* v = variables; v != variables + count; ++v) {
    const int64_t units = v->ids ? v->rows : v->rows * v->dim;
    const int64_t step = v->ids ? RowsOfPiece(v->dim) : kPiece;
    for (int64_t begin = 0; begin < units; begin += step) pieces.push_back({v, begin, std::min(units, begin + step)});
  }
  std::vector<float> scales(count, 1.0f);
  if (rule->clip_norm > 0) {
    std::vector<double> squares(pieces.size()), norms(count, 0.0);
    (*parallel_for)(std::ssize(pieces), kPiece / 8, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) squares[k] = SquaresOf(pieces[k]);
    });
    for (size_t k = 0; k < pieces.size(); ++k) norms[pieces[k].variable - variables] += squares[k];
    for (int64_t i = 0; i < count; ++i) scales[i] = ClipScale(*rule, norms[i]);
  }
  WithRule(*rule, [&](const auto& update) { Run(update, pieces, scales, variables, *parallel_for); });
}
