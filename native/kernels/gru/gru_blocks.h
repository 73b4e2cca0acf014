// How the GRU kernels split a batch: rows are sorted by length, longest first, into blocks of kBlockRows. One thread runs the
// whole time loop of a block, with one row per SIMD lane, so no thread waits for another.

#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/gru/gru.h"
#include "kernels/lanes.h"
#include "kernels/transpose.h"

namespace ctrlab {

class GruBlocks {
 public:
  explicit GruBlocks(const GruInput& input) : order_(input.rows) {
    const auto length = [&](int64_t b) { return input.splits[b + 1] - input.splits[b]; };
    for (int64_t b = 0; b < input.rows; ++b) order_[b] = b;
    std::stable_sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) { return length(a) > length(b); });
    count_ = (input.rows + kBlockRows - 1) / kBlockRows;
  }

  int64_t count() const { return count_; }

  // Blocks are dealt round-robin to this many groups. The number depends only on the batch. Each group sums in its own order, so
  // the result is the same for any number of threads.
  int64_t groups() const { return std::min<int64_t>(count_, 32); }

  // Cost of the forward pass: one multiply-add per lane and cycle.
  int64_t CyclesPerGroup(const GruInput& input) const {
    const int64_t steps = input.splits[input.rows] / std::max<int64_t>(1, groups()) / kLanes + 1;
    return steps * 3 * input.hidden * (input.inputs + input.hidden + 50);
  }

  // The rows of block i, longest first; fewer than kBlockRows in the last one.
  const int64_t* rows(int64_t i) const { return order_.data() + i * kBlockRows; }
  int64_t size(int64_t i) const { return std::min<int64_t>(kBlockRows, std::ssize(order_) - i * kBlockRows); }

 private:
  std::vector<int64_t> order_;
  int64_t count_;
};

// The rows of one block during the time loop. Rows are sorted by length, so the first `live` are still running.
struct GruLanes {
  int64_t row[kBlockRows], first[kBlockRows], length[kBlockRows];  // length 0 if the block has no such row

  GruLanes(const GruInput& input, const GruBlocks& blocks, int64_t i) {
    for (int64_t l = 0; l < kBlockRows; ++l) {
      const bool used = l < blocks.size(i);
      row[l] = used ? blocks.rows(i)[l] : 0;
      first[l] = used ? input.splits[row[l]] : 0;
      length[l] = used ? input.splits[row[l] + 1] - first[l] : 0;
    }
  }

  int64_t Live(int64_t t) const {
    return std::partition_point(length, length + kBlockRows, [t](int64_t n) { return n > t; }) - length;
  }

  // Pointers to each lane's numbers at position t in `matrix` [N, width]; `nowhere` for lanes that have ended.
  template <class Float>
  void At(int64_t t, int64_t live, Float* matrix, int64_t width, Float* nowhere, Float** places) const {
    for (int64_t l = 0; l < live; ++l) places[l] = matrix + (first[l] + t) * width;
    for (int64_t l = live; l < kBlockRows; ++l) places[l] = nowhere;
  }
};

// Prefetches the next position's rows, a few lanes at a time between products. There are more rows than the hardware prefetchers
// can follow, and prefetching all of them at once would delay the loads that are needed now.
class GruAhead {
 public:
  struct Rows {
    const float* matrix;
    int64_t width, position;
  };

  template <int N>
  GruAhead(const GruLanes& lanes, int64_t live, const Rows (&rows)[N]) : lanes_(lanes), live_(live), count_(N) {
    std::copy_n(rows, N, rows_);
  }

  void AskForSome() {
    for (const int64_t end = std::min(live_, lane_ + 4); lane_ < end; ++lane_) {
      for (int r = 0; r < count_; ++r) {
        const Rows& rows = rows_[r];
        const int64_t at = std::max<int64_t>(0, lanes_.first[lane_] + rows.position) * rows.width;
        for (int64_t i = 0; i < rows.width + 15; i += 16) __builtin_prefetch(rows.matrix + at + i);
      }
    }
  }

 private:
  const GruLanes& lanes_;
  const int64_t live_;
  const int count_;
  Rows rows_[5];
  int64_t lane_ = 0;
};

// A matrix [M, K] that multiplies lane matrices, stored as tiles of rows in the order of their use. So the kernel reads whole
// cache lines of weights in sequence, instead of a few numbers from each row.
class GruWeights {
 public:
  GruWeights(int64_t M, int64_t K, const Strided& from) : M_(M), K_(K), values_(new float[M * K]) {
    float* to = values_.get();
    for (int64_t i = 0; i < M; i += kTile) {
      for (int64_t k = 0; k < K; ++k) {
        for (int64_t row = i; row < std::min(i + kTile, M); ++row) *to++ = from.data[row * from.row + k * from.step];
      }
    }
  }

  // to [M][L] = this [M, K] times lanes [K][L]; with `add`, += instead of =.
  void Times(bool add, const float* lanes, float* to, GruAhead& ahead) const {
    for (int64_t i = 0; i < M_; i += kTile) {
      const int64_t rows = std::min(kTile, M_ - i);
      const Strided tile{values_.get() + i * K_, 1, rows};
      if (rows == kTile) {
        gemm::Tile<kTile, kBlockRows / kLanes>::Run(add, K_, tile, lanes, kBlockRows, to + i * kBlockRows, kBlockRows);
      } else {
        Gemm(add, rows, kBlockRows, K_, tile, lanes, kBlockRows, to + i * kBlockRows, kBlockRows);
      }
      ahead.AskForSome();
    }
  }

 private:
  static constexpr int64_t kTile = gemm::kAccumulators / (kBlockRows / kLanes);
  int64_t M_, K_;
  std::unique_ptr<float[]> values_;
};

}  // namespace ctrlab
