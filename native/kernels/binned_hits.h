// The hits (known ids in rows) of one id column, sorted into bins of 2^shift ids by a counting sort over blocks of rows. Each bin
// has one owner, so there are no races and no waiting. Its hits stay in row order, so sums are deterministic.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace ctrlab {

class BinnedHits {
 public:
  struct Hit {
    int32_t row, id;
    float weight;
  };

  // A column of `rows` rows whose ids lie in [-1, size); splits as in an id column, null where each row has one id.
  BinnedHits(const int64_t* splits, int64_t rows, int64_t size, int shift)
      : splits_(splits), rows_(rows), shift_(shift), bins_((size >> shift) + 1) {
    block_rows_ = std::max<int64_t>(256, (rows + 15) / 16);
    blocks_ = (rows + block_rows_ - 1) / block_rows_;
    hits_ = std::make_unique_for_overwrite<Hit[]>(splits ? splits[rows] : rows);
    ends_.resize(blocks_ * bins_);
  }

  int64_t blocks() const { return blocks_; }

  // A block only writes to places reserved for its own ids, so blocks may be sorted in parallel.
  // `for_each(begin, end, visit)` calls visit(row, id, weight) for the known ids of rows [begin, end), in order.
  template <class ForEach>
  void SortBlock(int64_t block, const ForEach& for_each) {
    const int64_t begin = block * block_rows_, end = std::min(rows_, begin + block_rows_);
    Ends* ends = &ends_[block * bins_];
    for_each(begin, end, [&](int64_t, int64_t id, float) { ++ends[id >> shift_].end; });
    int64_t place = splits_ ? splits_[begin] : begin;
    for (int64_t n = 0; n < bins_; ++n) {
      const int64_t count = ends[n].end;
      ends[n].begin = ends[n].end = place;
      place += count;
    }
    for_each(begin, end, [&](int64_t row, int64_t id, float weight) {
      hits_[ends[id >> shift_].end++] = {static_cast<int32_t>(row), static_cast<int32_t>(id), weight};
    });
  }

  template <class Visit>
  void ForEach(int64_t bin, const Visit& visit) const {
    for (size_t at = bin; at < ends_.size(); at += bins_) {
      for (int64_t h = ends_[at].begin; h < ends_[at].end; ++h) visit(hits_[h].row, hits_[h].id, hits_[h].weight);
    }
  }

 private:
  struct Ends {
    int64_t begin = 0, end = 0;
  };

  const int64_t* splits_;
  int64_t rows_, block_rows_, blocks_;
  int shift_;
  int64_t bins_;
  std::unique_ptr<Hit[]> hits_;
  std::vector<Ends> ends_;  // [blocks, bins]
};

}  // namespace ctrlab
