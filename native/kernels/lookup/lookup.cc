// The lookup kernels. Forward: for each block of rows, column by column, with prefetch of the rows of later ids. Merge: a table's
// ids set bits in a bitmap. The number of lower bits that are set is the index of an id's row in the result, so no id is hashed
// or compared. A second bitmap marks the nonzero words of the first, because a batch uses few. Tables with many ids are split
// into bins of ids, each with one owner.

#include "kernels/lookup/lookup.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <memory>
#include <vector>

#include "kernels/binned_hits.h"
#include "kernels/simd.h"

namespace ctrlab {
namespace {

constexpr int64_t kBlockRows = 512;     // output rows per column before the next column: keeps its table's pages in the TLB
constexpr int64_t kAhead = 16;          // distance between the row that is prefetched and the row that is used
constexpr int64_t kHitsPerBin = 16384;  // their merged rows fit in a core's cache; smaller bins cost more than they save
constexpr int64_t kMostBins = 64;

bool OneRowEach(const LookupColumn& column) { return column.combiner == kRows || !column.splits; }

int64_t First(const LookupColumn& column, int64_t b) { return column.splits ? column.splits[b] : b; }

int64_t IdCount(const LookupInput& input) {
  int64_t count = 0;
  for (int64_t c = 0; c < input.column_count; ++c) count += First(input.columns[c], input.rows);
  return count;
}

int64_t CyclesPerId(const LookupInput& input) { return 20 + input.tables[0].dim / 2; }

// A column's ids and its table, for the forward pass.
struct Source {
  const float* table;
  int64_t dim;
  const int64_t* ids;
  int64_t count;

  const float* Row(int64_t i) const { return table + ids[i] * dim; }

  void Ask(int64_t i) const {
    if (i >= count) return;
    const float* row = table + std::max<int64_t>(ids[i], 0) * dim;
    for (int64_t o = 0; o < dim; o += kLanes) Prefetch(row + o, 0);
    Prefetch(row + dim - 1, 0);
  }
};

// Copies the rows of ids [begin, end), one output row per id.
void CopyRows(const Source& source, int64_t begin, int64_t end, float* out, int64_t width) {
  for (int64_t i = begin; i < end; ++i) {
    source.Ask(i + kAhead);
    if (source.ids[i] >= 0) {
      Copy(source.Row(i), out + i * width, source.dim);
    } else {
      std::fill_n(out + i * width, source.dim, 0.0f);
    }
  }
}

// The numbers of a pooled row from `o` on, in `Tiles` tiles of a vector; the last may overlap the one before it.
template <int Tiles>
void SumTiles(const Source& source, int64_t begin, int64_t end, bool mean, int64_t o, float* out) {
  int64_t at[Tiles];
  for (int k = 0; k < Tiles; ++k) at[k] = std::min(o + k * kLanes, source.dim - kLanes);
  Vec sums[Tiles] = {};
  int64_t known = 0;
  for (int64_t i = begin; i < end; ++i) {
    source.Ask(i + kAhead);
    if (source.ids[i] < 0) continue;
    const float* row = source.Row(i);
    for (int k = 0; k < Tiles; ++k) sums[k] += Load(row + at[k]);
    ++known;
  }
  const float divisor = mean && known ? static_cast<float>(known) : 1.0f;
  for (int k = 0; k < Tiles; ++k) Store(out + at[k], sums[k] / divisor);
}

void SumNarrow(const Source& source, int64_t begin, int64_t end, bool mean, float* out) {
  std::fill_n(out, source.dim, 0.0f);
  int64_t known = 0;
  for (int64_t i = begin; i < end; ++i) {
    source.Ask(i + kAhead);
    if (source.ids[i] < 0) continue;
    AddScaled(out, 1.0f, source.Row(i), source.dim);
    ++known;
  }
  if (!mean || known < 2) return;
  for (int64_t o = 0; o < source.dim; ++o) out[o] /= static_cast<float>(known);
}

void Pool(const Source& source, int64_t begin, int64_t end, bool mean, float* out) {
  if (source.dim < kLanes) return SumNarrow(source, begin, end, mean, out);
  for (int64_t o = 0; o < source.dim; o += 2 * kLanes) {
    if (source.dim - o > kLanes) {
      SumTiles<2>(source, begin, end, mean, o, out);
    } else {
      SumTiles<1>(source, begin, end, mean, o, out);
    }
  }
}

// Calls visit(row of d_out, id, weight) for the known ids of rows [begin, end) of a column, in order.
template <class Visit>
inline void ForEachHit(const LookupColumn& column, int64_t begin, int64_t end, const Visit& visit) {
  if (OneRowEach(column)) {
    for (int64_t i = First(column, begin); i < First(column, end); ++i) {
      if (column.ids[i] >= 0) visit(i, column.ids[i], 1.0f);
    }
    return;
  }
  for (int64_t b = begin; b < end; ++b) {
    const int64_t *first = column.ids + column.splits[b], *last = column.ids + column.splits[b + 1];
    float weight = 1;
    if (column.combiner == kMean) {
      const int64_t known = std::count_if(first, last, [](int64_t id) { return id >= 0; });
      weight = 1.0f / static_cast<float>(std::max<int64_t>(known, 1));
    }
    for (const int64_t* id = first; id < last; ++id) {
      if (*id >= 0) visit(b, *id, weight);
    }
  }
}

class Merge {
 public:
  Merge(const LookupInput& input, const float* const* d_out, MergedRows* merged) : input_(input), d_out_(d_out), merged_(merged) {
    tables_.resize(input.table_count);
    for (int64_t c = 0; c < input.column_count; ++c) {
      Table& table = tables_[input.columns[c].table];
      table.columns.push_back({&input.columns[c], nullptr});
      table.hits += First(input.columns[c], input.rows);
    }
    int64_t words = 0;
    for (int64_t t = 0; t < input.table_count; ++t) words = Cut(t, words);
    bits_ = std::make_unique_for_overwrite<uint64_t[]>(words);
    used_ = std::make_unique_for_overwrite<uint64_t[]>(words / 64 + std::ssize(bins_));
    below_ = std::make_unique_for_overwrite<int32_t[]>(words);
  }

  void Run(const ParallelFor& parallel_for) {
    const int64_t hits = IdCount(input_);
    parallel_for(std::ssize(blocks_), 8 * hits / std::max<int64_t>(1, std::ssize(blocks_)), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) SortBlock(blocks_[k]);
    });
    const int64_t cycles = (hits / std::ssize(bins_) + 1) * CyclesPerId(input_) + 1000;
    parallel_for(std::ssize(bins_), cycles, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        Mark(bins_[n]);
        if (bins_[n].is_all) Fill(bins_[n]);
      }
    });
    for (MergedRows* m = merged_; m != merged_ + input_.table_count; ++m) m->count = 0;
    int64_t first_cut = std::ssize(bins_);
    for (int64_t n = std::ssize(bins_) - 1; n >= 0; --n) {
      if (!bins_[n].is_all) first_cut = n;
    }
    for (Bin& bin : bins_) {
      bin.place = merged_[bin.table].count;
      merged_[bin.table].count += bin.count;
    }
    if (first_cut == std::ssize(bins_)) return;
    parallel_for(std::ssize(bins_) - first_cut, cycles, [&](int64_t begin, int64_t end) {
      for (int64_t n = first_cut + begin; n < first_cut + end; ++n) {
        if (!bins_[n].is_all) Fill(bins_[n]);
      }
    });
  }

 private:
  struct Column {
    const LookupColumn* column;
    BinnedHits* hits;  // null if the table is one bin
  };
  struct Table {
    std::vector<Column> columns;
    int64_t hits = 0;
  };
  // A range of a table's ids [begin, end), owned by one thread. The bitmap has 64 of them per word, from `word` on.
  struct Bin {
    int64_t table, index, begin, end, word;
    bool is_all;        // the table's only bin
    int64_t count = 0;  // distinct ids
    int64_t place = 0;  // index of its first row among the table's
  };
  struct Block {
    const Column* column;
    int64_t index;
  };

  // Splits table t into bins whose bitmap begins at word `word`; returns the first word of the next table.
  int64_t Cut(int64_t t, int64_t word) {
    Table& table = tables_[t];
    const int64_t size = input_.tables[t].rows;
    const uint64_t wanted = std::min(kMostBins, table.hits / kHitsPerBin + 1);
    const int shift = std::max<int>(6, std::bit_width(static_cast<uint64_t>(size - 1) / std::bit_ceil(wanted)));
    const int64_t bins = ((size - 1) >> shift) + 1;
    for (int64_t n = 0; n < bins; ++n) {
      const int64_t begin = n << shift, end = std::min(size, (n + 1) << shift);
      bins_.push_back({t, n, begin, end, word, bins == 1});
      word += (end - begin + 63) / 64;
    }
    if (bins == 1) return word;
    for (Column& one : table.columns) {
      one.hits = sorted_.emplace_back(std::make_unique<BinnedHits>(one.column->splits, input_.rows, size, shift)).get();
      for (int64_t k = 0; k < one.hits->blocks(); ++k) blocks_.push_back({&one, k});
    }
    return word;
  }

  static void SortBlock(const Block& block) {
    block.column->hits->SortBlock(block.index, [&](int64_t begin, int64_t end, const auto& visit) {
      ForEachHit(*block.column->column, begin, end, visit);
    });
  }

  // Calls visit(column, row of d_out, id, weight) for the hits of a bin.
  template <class Visit>
  void ForEach(const Bin& bin, const Visit& visit) const {
    for (const Column& one : tables_[bin.table].columns) {
      const auto hit = visit(*one.column);
      if (one.hits) {
        one.hits->ForEach(bin.index, hit);
      } else {
        ForEachHit(*one.column, 0, input_.rows, hit);
      }
    }
  }

  // Marks of the nonzero words of a bin, 64 words per mark word; bins share none.
  uint64_t* Used(const Bin& bin) const { return &used_[bin.word / 64 + (&bin - bins_.data())]; }

  // Calls visit(word of the bin) for each nonzero word, in order.
  template <class Visit>
  void ForEachUsed(const Bin& bin, const Visit& visit) const {
    const uint64_t* used = Used(bin);
    for (int64_t u = 0; u < (bin.end - bin.begin + 4095) / 4096; ++u) {
      for (uint64_t left = used[u]; left; left &= left - 1) visit(u * 64 + std::countr_zero(left));
    }
  }

  void Mark(Bin& bin) {
    uint64_t *bits = &bits_[bin.word], *used = Used(bin);
    int32_t* below = &below_[bin.word];
    std::fill_n(bits, (bin.end - bin.begin + 63) / 64, 0);
    std::fill_n(used, (bin.end - bin.begin + 4095) / 4096, 0);
    ForEach(bin, [&](const LookupColumn&) {
      return [&](int64_t, int64_t id, float) {
        const int64_t bit = id - bin.begin;
        bits[bit >> 6] |= uint64_t{1} << (bit & 63);
        used[bit >> 12] |= uint64_t{1} << (bit >> 6 & 63);
      };
    });
    int32_t count = 0;
    ForEachUsed(bin, [&](int64_t w) {
      below[w] = count;
      count += std::popcount(bits[w]);
    });
    bin.count = count;
  }

  void Fill(const Bin& bin) const {
    const int64_t dim = input_.tables[bin.table].dim;
    const uint64_t* bits = &bits_[bin.word];
    const int32_t* below = &below_[bin.word];
    int64_t* id_at = merged_[bin.table].ids + bin.place;
    float* rows = merged_[bin.table].rows + bin.place * dim;
    ForEachUsed(bin, [&](int64_t w) {
      for (uint64_t left = bits[w]; left; left &= left - 1) *id_at++ = bin.begin + w * 64 + std::countr_zero(left);
    });
    std::fill_n(rows, bin.count * dim, 0.0f);
    ForEach(bin, [&](const LookupColumn& column) {
      const int64_t width = input_.widths[column.output];
      const float* d_out = d_out_[column.output] + column.offset;
      return [=, &bin](int64_t row, int64_t id, float weight) {
        const int64_t bit = id - bin.begin;
        const int64_t place = below[bit >> 6] + std::popcount(bits[bit >> 6] & ((uint64_t{1} << (bit & 63)) - 1));
        const float* from = d_out + row * width;
        Prefetch(from, 8 * width * int64_t{sizeof(float)});
        AddScaled(rows + place * dim, weight, from, dim);
      };
    });
  }

  const LookupInput& input_;
  const float* const* d_out_;
  MergedRows* merged_;
  std::vector<Table> tables_;
  std::vector<std::unique_ptr<BinnedHits>> sorted_;
  std::vector<Block> blocks_;
  std::vector<Bin> bins_;
  std::unique_ptr<uint64_t[]> bits_;  // the batch's ids, 64 per word
  std::unique_ptr<uint64_t[]> used_;  // the nonzero words of `bits_`, 64 per word
  std::unique_ptr<int32_t[]> below_;  // for each nonzero word, the number of bits set in earlier words of its bin
};

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

void ctrlab_lookup(const LookupInput* input, const float* const* tables, float* const* out, const ParallelFor* parallel_for) {
  const int64_t cycles = IdCount(*input) / std::max<int64_t>(1, input->rows) * CyclesPerId(*input) + 10;
  (*parallel_for)(input->rows, cycles, [&](int64_t first, int64_t last) {
    for (int64_t begin = first; begin < last; begin += kBlockRows) {
      const int64_t end = std::min(last, begin + kBlockRows);
      for (int64_t c = 0; c < input->column_count; ++c) {
        const LookupColumn& column = input->columns[c];
        const Source source{tables[column.table], input->tables[column.table].dim, column.ids, First(column, input->rows)};
        const int64_t width = input->widths[column.output];
        float* to = out[column.output] + column.offset;
        if (OneRowEach(column)) {
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

void ctrlab_lookup_merge(const LookupInput* input, const float* const* d_out, MergedRows* merged,
                         const ParallelFor* parallel_for) {
  Merge(*input, d_out, merged).Run(*parallel_for);
}
