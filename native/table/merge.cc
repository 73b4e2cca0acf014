// Equal keys are found by bin: a hit (a key in a row of an output) goes to the bin given by its hash. So each key has one owner,
// and the hits of a bin stay in order. A radix sort orders the distinct keys of a table.

#include "table/merge.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <vector>

#include "kernels/simd.h"
#include "store/hash.h"

namespace ctrlab::embedding {
namespace {

constexpr int64_t kHitsPerBin = 8192;  // their table of distinct keys fits in a core's own cache
constexpr int64_t kMostBins = 64;
constexpr int64_t kBlockIds = 8192;  // ids that one thread sorts into bins at a time

bool OneRowEach(const LookupColumn& column) { return column.combiner == kRows || !column.splits; }

int64_t Ids(const LookupColumn& column, int64_t rows) { return column.splits ? column.splits[rows] : rows; }

struct Hit {
  int64_t key;
  int32_t row;  // in the output
  int32_t column;
};

struct Different {
  int64_t key;
  int64_t count;
  int32_t bin, place;  // the index among the bin's keys
};

// Sorts by key, byte by byte, and skips bytes that are equal in all keys.
void SortByKey(std::vector<Different>& keys) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  uint64_t differ = 0;
  for (const Different& one : keys) differ |= static_cast<uint64_t>(one.key ^ keys[0].key);
  std::vector<Different> other(keys.size());
  for (int shift = 0; shift < 64; shift += 8) {
    if ((differ >> shift & 255) == 0) continue;
    auto digit = [&](const Different& one) { return (static_cast<uint64_t>(one.key) ^ kSign) >> shift & 255; };
    int64_t places[257] = {};
    for (const Different& one : keys) ++places[digit(one) + 1];
    for (int d = 0; d < 256; ++d) places[d + 1] += places[d];
    for (const Different& one : keys) other[places[digit(one)]++] = one;
    keys.swap(other);
  }
}

}  // namespace

struct KeyMerge::Work {
  // One bin of a table's hits.
  struct Bin {
    int64_t table, index;
    std::vector<std::pair<const Hit*, const Hit*>> runs;  // in summation order
    std::vector<int32_t> places;                          // for each hit: its key's index among the bin's keys
    std::vector<Different> keys;
    std::vector<int32_t> ranks;  // for each key of the bin: its index among the table's keys
  };
  // Ids [begin, end) of a column.
  struct Block {
    int64_t column, begin, end;
    int64_t first_bin, bins;  // of the column's table
    Hit* hits = nullptr;
    std::vector<int64_t> ends;
  };

  Work(const LookupInput& input, const ParallelFor& parallel_for, const int64_t* const* times)
      : input(input), times(times), keys(input.table_count) {
    Cut();
    const auto run = [&](auto& things, int64_t cycles, const auto& work) {
      parallel_for(std::ssize(things), cycles, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) work(things[k]);
      });
    };
    run(blocks, 20 * kBlockIds, [&](Block& block) { SortIntoBins(block); });
    for (const Block& block : blocks) {
      for (int64_t n = 0; n < block.bins; ++n) {
        bins[block.first_bin + n].runs.emplace_back(block.hits + (n ? block.ends[n - 1] : 0), block.hits + block.ends[n]);
      }
    }
    run(bins, 40 * kHitsPerBin, [&](Bin& bin) { FindDifferent(bin); });
    for (Bin& bin : bins) {
      keys[bin.table].insert(keys[bin.table].end(), bin.keys.begin(), bin.keys.end());
      bin.ranks.resize(bin.keys.size());
    }
    run(keys, 20 * size, [&](std::vector<Different>& of_table) { Rank(of_table); });
  }

  void Cut() {
    std::vector<int64_t> ids(input.table_count), first_bin(input.table_count), bins_of(input.table_count);
    int64_t total = 0;
    for (int64_t c = 0; c < input.column_count; ++c) {
      const int64_t count = Ids(input.columns[c], input.rows);
      ids[input.columns[c].table] += count;
      total += count;
    }
    for (int64_t t = 0; t < input.table_count; ++t) {
      first_bin[t] = std::ssize(bins);
      bins_of[t] = std::min<int64_t>(kMostBins, std::bit_ceil(static_cast<uint64_t>(ids[t] / kHitsPerBin + 1)));
      for (int64_t n = 0; n < bins_of[t]; ++n) bins.push_back({t, first_bin[t] + n, {}, {}, {}, {}});
    }
    hits = std::make_unique_for_overwrite<Hit[]>(total);
    size = total;
    Hit* place = hits.get();
    for (int64_t c = 0; c < input.column_count; ++c) {
      const int64_t t = input.columns[c].table, count = Ids(input.columns[c], input.rows);
      for (int64_t begin = 0; begin < count; begin += kBlockIds) {
        const int64_t end = std::min(count, begin + kBlockIds);
        blocks.push_back({c, begin, end, first_bin[t], bins_of[t], place, {}});
        place += end - begin;
      }
    }
  }

  // A stable counting sort.
  void SortIntoBins(Block& block) const {
    const LookupColumn& column = input.columns[block.column];
    const uint64_t mask = block.bins - 1;
    block.ends.assign(block.bins + 1, 0);
    for (int64_t i = block.begin; i < block.end; ++i) ++block.ends[(HashKey(column.ids[i]) & mask) + 1];
    for (int64_t n = 0; n < block.bins; ++n) block.ends[n + 1] += block.ends[n];
    int64_t row =
        OneRowEach(column) ? 0 : std::upper_bound(column.splits, column.splits + input.rows + 1, block.begin) - column.splits - 1;
    for (int64_t i = block.begin; i < block.end; ++i) {
      if (OneRowEach(column)) {
        row = i;
      } else {
        while (i >= column.splits[row + 1]) ++row;
      }
      Hit& hit = block.hits[block.ends[HashKey(column.ids[i]) & mask]++];
      hit = {column.ids[i], static_cast<int32_t>(row), static_cast<int32_t>(block.column)};
    }
  }

  void FindDifferent(Bin& bin) const {
    int64_t count = 0;
    for (const auto& [begin, end] : bin.runs) count += end - begin;
    if (count == 0) return;
    bin.places.resize(count);
    const int bits = std::bit_width(static_cast<uint64_t>(2 * count));
    std::vector<int32_t> table(size_t{1} << bits, -1);
    int32_t* place = bin.places.data();
    for (const auto& [begin, end] : bin.runs) {
      const int64_t* of_column = times && begin < end ? times[begin->column] : nullptr;
      for (const Hit* hit = begin; hit < end; ++hit) {
        uint64_t at = HashKey(hit->key) >> (64 - bits);
        while (table[at] >= 0 && bin.keys[table[at]].key != hit->key) at = (at + 1) & (table.size() - 1);
        if (table[at] < 0) {
          table[at] = static_cast<int32_t>(bin.keys.size());
          bin.keys.push_back({hit->key, 0, static_cast<int32_t>(bin.index), table[at]});
        }
        bin.keys[table[at]].count += of_column ? of_column[hit->row] : 1;
        *place++ = table[at];
      }
    }
  }

  void Rank(std::vector<Different>& of_table) {
    if (of_table.empty()) return;
    SortByKey(of_table);
    for (size_t k = 0; k < of_table.size(); ++k) bins[of_table[k].bin].ranks[of_table[k].place] = static_cast<int32_t>(k);
  }

  void Add(const Bin& bin, const float* const* d_out, float* rows) const {
    const int64_t dim = input.tables[bin.table].dim;
    for (const int32_t rank : bin.ranks) std::fill_n(rows + rank * dim, dim, 0.0f);
    const int32_t* place = bin.places.data();
    for (const auto& [begin, end] : bin.runs) {
      if (begin == end) continue;
      const LookupColumn& column = input.columns[begin->column];
      const int64_t width = input.widths[column.output];
      const float* from = d_out[column.output] + column.offset;
      for (const Hit* hit = begin; hit < end; ++hit) {
        if (hit + 8 < end) Prefetch(from + hit[8].row * width, 0);
        const float weight = column.combiner == kMean && column.splits
                                 ? 1.0f / static_cast<float>(column.splits[hit->row + 1] - column.splits[hit->row])
                                 : 1.0f;
        AddScaled(rows + bin.ranks[*place++] * dim, weight, from + hit->row * width, dim);
      }
    }
  }

  const LookupInput& input;
  const int64_t* const* const times;
  std::vector<Block> blocks;
  std::vector<Bin> bins;
  std::unique_ptr<Hit[]> hits;
  int64_t size = 0;
  std::vector<std::vector<Different>> keys;  // for each table
};

KeyMerge::KeyMerge(const LookupInput& input, const ParallelFor& parallel_for, const int64_t* const* times)
    : work_(std::make_unique<Work>(input, parallel_for, times)) {}
KeyMerge::~KeyMerge() = default;

int64_t KeyMerge::count(int64_t table) const { return std::ssize(work_->keys[table]); }

void KeyMerge::Write(const float* const* d_out, const MergedKeys* merged, const ParallelFor& parallel_for) const {
  for (int64_t t = 0; t < work_->input.table_count; ++t) {
    for (int64_t k = 0; k < count(t); ++k) {
      merged[t].keys[k] = work_->keys[t][k].key;
      merged[t].counts[k] = work_->keys[t][k].count;
    }
  }
  parallel_for(std::ssize(work_->bins), 60 * kHitsPerBin, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const Work::Bin& bin = work_->bins[n];
      if (merged[bin.table].rows) work_->Add(bin, d_out, merged[bin.table].rows);
    }
  });
}

}  // namespace ctrlab::embedding
