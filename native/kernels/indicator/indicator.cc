// The indicator kernels. Forward: gathers and sums kernel rows, with a tile of outputs in registers. Gradient: the kernel's rows
// are split into bins that fit in a cache. Each bin has one owner, so there are no races and no waiting.

#include "kernels/indicator/indicator.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <vector>

#include "kernels/binned_hits.h"
#include "kernels/simd.h"

namespace ctrlab {
namespace {

// Calls visit(row, position, id, weight) for the known ids of rows [begin, end) of a column, rows in order.
template <class Visit>
inline void ForEachId(const IdColumn& column, int64_t begin, int64_t end, const Visit& visit) {
  for (int64_t b = begin; b < end; ++b) {
    const int64_t first = column.splits ? column.splits[b] : b;
    const int64_t last = column.splits ? column.splits[b + 1] : b + 1;
    for (int64_t i = first; i < last; ++i) {
      if (column.ids[i] >= 0) visit(b, i, column.ids[i], column.weights ? column.weights[i] : 1.0f);
    }
  }
}

int64_t IdCount(const IndicatorInput& input) {
  int64_t count = 0;
  for (int64_t c = 0; c < input.column_count; ++c) {
    count += input.columns[c].splits ? input.columns[c].splits[input.rows] : input.rows;
  }
  return count;
}

// The estimated cycles of a row: kernel rows come from the L2 or L3 cache.
int64_t CyclesPerRow(const IndicatorInput& input) {
  return IdCount(input) / std::max<int64_t>(1, input.rows) * (4 + input.outputs / 4) + 10;
}

// Outputs [o, o + Vectors * kLanes) of row b.
template <int Vectors>
void SumTile(const IndicatorInput& input, const float* kernel, int64_t b, int64_t o, float* out) {
  Vec sums[Vectors] = {};
  for (int64_t c = 0; c < input.column_count; ++c) {
    const IdColumn& column = input.columns[c];
    const float* rows = kernel + column.offset * input.outputs + o;
    ForEachId(column, b, b + 1, [&](int64_t, int64_t, int64_t id, float weight) {
      const float* row = rows + id * input.outputs;
      for (int v = 0; v < Vectors; ++v) sums[v] += weight * Load(row + v * kLanes);
    });
  }
  for (int v = 0; v < Vectors; ++v) Store(out + b * input.outputs + o + v * kLanes, sums[v]);
}

// Outputs [o, O) of row b, one at a time: for the linear term's O = 1, and for the rest of a row.
void SumRest(const IndicatorInput& input, const float* kernel, int64_t b, int64_t o, float* out) {
  for (; o < input.outputs; ++o) {
    float sum = 0;
    for (int64_t c = 0; c < input.column_count; ++c) {
      const IdColumn& column = input.columns[c];
      const float* rows = kernel + column.offset * input.outputs + o;
      ForEachId(column, b, b + 1, [&](int64_t, int64_t, int64_t id, float weight) { sum += weight * rows[id * input.outputs]; });
    }
    out[b * input.outputs + o] = sum;
  }
}

// A bin's kernel rows should fit in a core's own cache, next to the rows of d_out that stream through it.
constexpr int64_t kBinBytes = 128 << 10;

// A range of one column's ids [begin, end), whose kernel rows one thread owns. `hits` is null if it is the whole column.
struct Bin {
  const IdColumn* column;
  const BinnedHits* hits;
  int64_t index, begin, end;
};

void FillBin(const IndicatorInput& input, const Bin& bin, const float* d_out, float* d_kernel) {
  const int64_t O = input.outputs;
  float* rows = d_kernel + bin.column->offset * O;
  std::fill(rows + bin.begin * O, rows + bin.end * O, 0.0f);
  auto add = [&](int64_t b, int64_t id, float weight) {
    if (O == 1) {
      rows[id] += weight * d_out[b];
    } else {
      AddScaled(rows + id * O, weight, d_out + b * O, O);
    }
  };
  if (bin.hits) {
    bin.hits->ForEach(bin.index, add);
  } else {
    ForEachId(*bin.column, 0, input.rows, [&](int64_t b, int64_t, int64_t id, float weight) { add(b, id, weight); });
  }
}

// The largest power of two of ids whose kernel rows take at most kBinBytes.
int BinShift(int64_t outputs) {
  int shift = 0;
  while ((int64_t{2} << shift) * outputs * int64_t{sizeof(float)} <= kBinBytes && shift < 30) ++shift;
  return shift;
}

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

void ctrlab_indicator(const IndicatorInput* input, const float* kernel, float* out, const ParallelFor* parallel_for) {
  (*parallel_for)(input->rows, CyclesPerRow(*input), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      int64_t o = 0;
      for (; o + 4 * kLanes <= input->outputs; o += 4 * kLanes) SumTile<4>(*input, kernel, b, o, out);
      for (; o + kLanes <= input->outputs; o += kLanes) SumTile<1>(*input, kernel, b, o, out);
      SumRest(*input, kernel, b, o, out);
    }
  });
}

void ctrlab_indicator_gradient(const IndicatorInput* input, const float* d_out, float* d_kernel,
                               const ParallelFor* parallel_for) {
  const int shift = BinShift(input->outputs);
  std::vector<std::unique_ptr<BinnedHits>> sorted;
  struct Block {
    const IdColumn* column;
    BinnedHits* hits;
    int64_t index;
  };
  std::vector<Block> blocks;
  std::vector<Bin> bins;
  for (int64_t c = 0; c < input->column_count; ++c) {
    const IdColumn& column = input->columns[c];
    if (column.size >> shift == 0) {
      bins.push_back({&column, nullptr, 0, 0, column.size});
      continue;
    }
    BinnedHits* hits = sorted.emplace_back(std::make_unique<BinnedHits>(column.splits, input->rows, column.size, shift)).get();
    for (int64_t k = 0; k < hits->blocks(); ++k) blocks.push_back({&column, hits, k});
    for (int64_t n = 0; n << shift < column.size; ++n) {
      bins.push_back({&column, hits, n, n << shift, std::min(column.size, (n + 1) << shift)});
    }
  }
  const int64_t hits = IdCount(*input);
  (*parallel_for)(std::ssize(blocks), 8 * hits / std::max<int64_t>(1, std::ssize(blocks)), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      blocks[k].hits->SortBlock(blocks[k].index, [column = blocks[k].column](int64_t first, int64_t last, const auto& visit) {
        ForEachId(*column, first, last, [&](int64_t b, int64_t, int64_t id, float weight) { visit(b, id, weight); });
      });
    }
  });
  const int64_t hits_per_bin = hits / std::ssize(bins) + 1;
  const int64_t cycles = hits_per_bin * (4 + input->outputs / 4) + (kBinBytes >> 6);
  (*parallel_for)(std::ssize(bins), cycles, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) FillBin(*input, bins[n], d_out, d_kernel);
  });
}

void ctrlab_indicator_weights_gradient(const IndicatorInput* input, const float* kernel, const float* d_out,
                                       float* const* d_weights, const ParallelFor* parallel_for) {
  const int64_t O = input->outputs;
  (*parallel_for)(input->rows, CyclesPerRow(*input), [&](int64_t begin, int64_t end) {
    for (int64_t c = 0; c < input->column_count; ++c) {
      const IdColumn& column = input->columns[c];
      const int64_t first = column.splits ? column.splits[begin] : begin;
      const int64_t last = column.splits ? column.splits[end] : end;
      std::fill(d_weights[c] + first, d_weights[c] + last, 0.0f);
      ForEachId(column, begin, end, [&](int64_t b, int64_t i, int64_t id, float) {
        d_weights[c][i] = Dot(kernel + (column.offset + id) * O, d_out + b * O, O);
      });
    }
  });
}
