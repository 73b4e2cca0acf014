// The lookup of tables whose rows have other formats than float32.

#include <algorithm>

#include "kernels/lookup/lookup.h"
#include "kernels/lookup/row_format.h"
#include "kernels/simd.h"

namespace ctrlab {
namespace {

constexpr int64_t kBlockRows = 512;  // as in lookup.cc
constexpr int64_t kAhead = 16;
constexpr int64_t kLine = 64;

// A column's ids and its table.
struct Source {
  const float* table;
  RowFormat format;
  int64_t dim, words;
  const int64_t* ids;
  int64_t count;

  const float* Row(int64_t i) const { return table + ids[i] * words; }

  void Ask(int64_t i) const {
    if (i >= count || ids[i] < 0) return;
    for (int64_t byte = 0; byte < 4 * words; byte += kLine) Prefetch(Row(i), byte);
    Prefetch(Row(i), 4 * words - 1);
  }
};

void Pool(const Source& source, int64_t begin, int64_t end, bool mean, float* out) {
  std::fill_n(out, source.dim, 0.0f);
  int64_t known = 0;
  for (int64_t i = begin; i < end; ++i) {
    source.Ask(i + kAhead);
    if (source.ids[i] < 0) continue;
    AddRow<false>(source.format, source.Row(i), source.dim, out);
    ++known;
  }
  if (!mean || known < 2) return;
  for (int64_t d = 0; d < source.dim; ++d) out[d] /= static_cast<float>(known);
}

void CopyRows(const Source& source, int64_t begin, int64_t end, float* out, int64_t width) {
  for (int64_t i = begin; i < end; ++i) {
    source.Ask(i + kAhead);
    if (source.ids[i] >= 0) {
      AddRow<true>(source.format, source.Row(i), source.dim, out + i * width);
    } else {
      std::fill_n(out + i * width, source.dim, 0.0f);
    }
  }
}

int64_t First(const LookupColumn& column, int64_t b) { return column.splits ? column.splits[b] : b; }

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

void ctrlab_packed_lookup(const LookupInput* input, const float* const* tables, const RowFormat* formats, float* const* out,
                          const ParallelFor* parallel_for) {
  int64_t ids = 0;
  for (int64_t c = 0; c < input->column_count; ++c) ids += First(input->columns[c], input->rows);
  const int64_t cycles = ids / std::max<int64_t>(1, input->rows) * (20 + input->tables[0].dim / 2) + 10;
  (*parallel_for)(input->rows, cycles, [&](int64_t first, int64_t last) {
    for (int64_t begin = first; begin < last; begin += kBlockRows) {
      const int64_t end = std::min(last, begin + kBlockRows);
      for (int64_t c = 0; c < input->column_count; ++c) {
        const LookupColumn& column = input->columns[c];
        const int64_t t = column.table, dim = input->tables[t].dim, width = input->widths[column.output];
        const Source source{tables[t], formats[t], dim, RowWords(formats[t], dim), column.ids, First(column, input->rows)};
        float* const to = out[column.output] + column.offset;
        if (column.combiner == kRows || !column.splits) {
          CopyRows(source, First(column, begin), First(column, end), to, width);
          continue;
        }
        for (int64_t b = begin; b < end; ++b) {
          Pool(source, column.splits[b], column.splits[b + 1], column.combiner == kMean, to + b * width);
        }
      }
    }
  });
}
