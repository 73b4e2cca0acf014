// The interaction kernels. A row's embeddings fit in the L1 cache, so each row is one small unit of work without intermediate
// tensors: what the stock graph writes to memory stays in registers.

#include "kernels/interaction/interaction.h"

#include <algorithm>

#include "kernels/gemm.h"

namespace ctrlab {
namespace {

// The number of floats of a vector that are loaded together.
int64_t Tile(int64_t d, int64_t dim) { return std::min(kLanes, dim - d); }

// Written so that the compiler makes one masked instruction of each, if the machine has it.
Vec LoadPart(const float* p, int64_t n) {
  if (n == kLanes) return Load(p);
  alignas(Vec) float lanes[kLanes];
  for (int64_t k = 0; k < kLanes; ++k) lanes[k] = k < n ? p[k] : 0.0f;
  return Load(lanes);
}

void StorePart(float* p, const Vec& v, int64_t n) {
  if (n == kLanes) return Store(p, v);
  alignas(Vec) float lanes[kLanes];
  Store(lanes, v);
  for (int64_t k = 0; k < kLanes; ++k) {
    if (k < n) p[k] = lanes[k];
  }
}

// The estimated cycles of a row: `flops` are done a vector at a time, and each float is moved once.
int64_t Cycles(int64_t flops, int64_t floats) { return 10 + (flops + floats) / kLanes; }

// The vectors of one row. Vector i >= 1 is at `from_one + i * dim`; vector 0 may be elsewhere.
struct Row {
  const float* first;
  const float* from_one;
  int64_t count, dim;

  Row(const InteractionInput& input, int64_t b) : count(input.field_count + (input.bottom ? 1 : 0)), dim(input.dim) {
    const float* fields = input.fields + b * input.field_count * dim;
    first = input.bottom ? input.bottom + b * dim : fields;
    from_one = input.bottom ? fields - dim : fields;
  }
  const float* operator[](int64_t i) const { return i ? from_one + i * dim : first; }
};

// Dot products of vectors [i, i + Rows) with the kLanes vectors whose dimensions [d, d + tile) are `columns`. From the second
// tile of dimensions on they are added to `pairs`. Only vectors before i count.
template <int Rows>
void DotTile(const Row& row, const Vec* columns, int64_t i, int64_t j, int64_t d, float* pairs) {
  Vec sums[Rows] = {};
  const float* left = row.from_one + i * row.dim + d;
  for (int64_t k = 0, tile = Tile(d, row.dim); k < tile; ++k) {
    const Vec column = columns[k];
    gemm::Unrolled<Rows>([&](int r) CTRLAB_INLINE { sums[r] += left[r * row.dim + k] * column; });
  }
  gemm::Unrolled<Rows>([&](int r) CTRLAB_INLINE {
    float* out = pairs + PairCount(i + r) + j;
    const int64_t n = std::min(kLanes, i + r - j);
    StorePart(out, d ? sums[r] + LoadPart(out, n) : sums[r], n);
  });
}

void Dots(const Row& row, float* pairs) {
  for (int64_t j = 0; j < row.count; j += kLanes) {
    const int64_t width = std::min(kLanes, row.count - j);
    for (int64_t d = 0; d < row.dim; d += kLanes) {
      Vec columns[kLanes] = {};
      for (int64_t k = 0; k < width; ++k) columns[k] = LoadPart(row[j + k] + d, Tile(d, row.dim));
      Transpose(columns);
      int64_t i = j + 1;
      for (; i + 8 <= row.count; i += 8) DotTile<8>(row, columns, i, j, d, pairs);
      for (; i + 2 <= row.count; i += 2) DotTile<2>(row, columns, i, j, d, pairs);
      if (i < row.count) DotTile<1>(row, columns, i, j, d, pairs);
    }
  }
}

// The gradient of one row: d_u[i] = sum over j != i of g(i, j) u[j], where g(i, j) for j < i lies at PairCount(i) + j.
struct RowGradient {
  float* d_first;             // gradient of vector 0
  float* d_from_one;          // + i * dim: gradient of vector i
  const float* d_first_self;  // [D]: initial value of the gradient of vector 0; null: zero

  // Vectors [i, i + Rows).
  template <int Rows>
  void Write(const Row& row, const float* g, int64_t i) const {
    const float* left[Rows];  // g(i + r, 0), ...
    for (int r = 0; r < Rows; ++r) left[r] = g + PairCount(i + r);
    for (int64_t d = 0; d < row.dim; d += kLanes) {
      const int64_t tile = Tile(d, row.dim);
      Vec sums[Rows] = {};
      if (i == 0 && d_first_self) sums[0] = LoadPart(d_first_self + d, tile);
      for (int64_t j = 0; j < i; ++j) {
        const Vec u = LoadPart(row[j] + d, tile);
        gemm::Unrolled<Rows>([&](int r) CTRLAB_INLINE { sums[r] += left[r][j] * u; });
      }
      gemm::Unrolled<Rows>([&](int j) CTRLAB_INLINE {
        const Vec u = LoadPart(row[i + j] + d, tile);
        gemm::Unrolled<Rows>([&](int r) CTRLAB_INLINE {
          if (r != j) sums[r] += left[r > j ? r : j][i + (r > j ? j : r)] * u;
        });
      });
      for (int64_t j = i + Rows; j < row.count; ++j) {
        const Vec u = LoadPart(row[j] + d, tile);
        const float* below = g + PairCount(j) + i;
        gemm::Unrolled<Rows>([&](int r) CTRLAB_INLINE { sums[r] += below[r] * u; });
      }
      gemm::Unrolled<Rows>(
          [&](int r) CTRLAB_INLINE { StorePart((i + r ? d_from_one + (i + r) * row.dim : d_first) + d, sums[r], tile); });
    }
  }

  void operator()(const Row& row, const float* g) const {
    int64_t i = 0;
    for (; i + 8 <= row.count; i += 8) Write<8>(row, g, i);
    for (; i + 2 <= row.count; i += 2) Write<2>(row, g, i);
    if (i < row.count) Write<1>(row, g, i);
  }
};

}  // namespace
}  // namespace ctrlab

void ctrlab_factorization_machine(const ctrlab::InteractionInput* input, float* out, const ctrlab::ParallelFor* parallel_for) {
  using namespace ctrlab;
  const int64_t F = input->field_count, D = input->dim;
  (*parallel_for)(input->rows, Cycles(2 * F * D, F * D), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t d = 0; d < D; d += kLanes) {
        const float* v = input->fields + b * F * D + d;
        Vec sum = {}, pairs = {};  // as fast as the difference of squares, without cancellation
        for (int64_t f = 0; f < F; ++f) {
          const Vec one = LoadPart(v + f * D, Tile(d, D));
          pairs += one * sum;
          sum += one;
        }
        StorePart(out + b * D + d, pairs, Tile(d, D));
      }
    }
  });
}

void ctrlab_factorization_machine_gradient(const ctrlab::InteractionInput* input, const float* d_out, float* d_fields,
                                           const ctrlab::ParallelFor* parallel_for) {
  using namespace ctrlab;
  const int64_t F = input->field_count, D = input->dim;
  (*parallel_for)(input->rows, Cycles(3 * F * D, 2 * F * D), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t d = 0; d < D; d += kLanes) {
        const int64_t tile = Tile(d, D);
        const float* v = input->fields + b * F * D + d;
        float* d_v = d_fields + b * F * D + d;
        Vec sum = {};
        for (int64_t f = 0; f < F; ++f) sum += LoadPart(v + f * D, tile);
        const Vec g = LoadPart(d_out + b * D + d, tile);
        for (int64_t f = 0; f < F; ++f) StorePart(d_v + f * D, g * (sum - LoadPart(v + f * D, tile)), tile);
      }
    }
  });
}

void ctrlab_dot_interaction(const ctrlab::InteractionInput* input, float* out, const ctrlab::ParallelFor* parallel_for) {
  using namespace ctrlab;
  const int64_t D = input->dim, U = input->field_count + (input->bottom ? 1 : 0), P = PairCount(U);
  const int64_t head = input->bottom ? D : 0;
  (*parallel_for)(input->rows, Cycles(2 * P * D, U * D + P), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      float* row_out = out + b * (head + P);
      const Row row(*input, b);
      std::copy_n(row.first, head, row_out);
      Dots(row, row_out + head);
    }
  });
}

void ctrlab_dot_interaction_gradient(const ctrlab::InteractionInput* input, const float* d_out, float* d_bottom, float* d_fields,
                                     const ctrlab::ParallelFor* parallel_for) {
  using namespace ctrlab;
  const int64_t F = input->field_count, D = input->dim, U = F + (input->bottom ? 1 : 0), P = PairCount(U);
  const int64_t head = input->bottom ? D : 0;
  (*parallel_for)(input->rows, Cycles(4 * P * D, 2 * U * D + P), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const float* g = d_out + b * (head + P);
      float* d_row = d_fields + b * F * D;
      const RowGradient gradient{head ? d_bottom + b * D : d_row, d_row - head, head ? g : nullptr};
      gradient(Row(*input, b), g + head);
    }
  });
}
