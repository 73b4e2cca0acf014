// Column sums over a matrix [B, n]. A thread owns a tile of columns and goes through all rows. So no sum is shared between
// threads, and each sum runs in row order.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/abi.h"
#include "kernels/simd.h"

namespace ctrlab {

constexpr int kTileVectors = 4;  // 64 columns: four cache lines per row, and sums that fit in registers

// A tile of V vectors of columns; `last` is the number of valid columns in the last one.
template <int V, bool kWhole>
struct ColumnTile {
  static constexpr int kVectors = V;
  int64_t first, last;

  Vec Get(const float* row, int v) const {
    if (kWhole || v + 1 < V) return Load(row + first + v * kLanes);
    Vec some = {};
    std::memcpy(&some, row + first + v * kLanes, last * sizeof(float));
    return some;
  }

  void Put(float* row, int v, const Vec& value) const {
    if (kWhole || v + 1 < V) {
      Store(row + first + v * kLanes, value);
    } else {
      std::memcpy(row + first + v * kLanes, &value, last * sizeof(float));
    }
  }
};

// Float32 column sums that do not lose low bits to a large total: rows are summed in short runs first.
template <int V>
class ColumnSums {
 public:
  void Add(int v, const Vec& x) { run_[v] += x; }

  // Call it after each row.
  void NextRow() {
    if (++rows_ % kRun == 0) Flush();
  }

  Vec Total(int v) const { return total_[v] + run_[v]; }

 private:
  static constexpr int64_t kRun = 32;

  void Flush() {
    for (int v = 0; v < V; ++v) {
      total_[v] += run_[v];
      run_[v] = Vec{};
    }
  }

  Vec run_[V] = {}, total_[V] = {};
  int64_t rows_ = 0;
};

// Calls body(tile) for every tile of `columns` columns; `cycles` is the cost of one row in one tile.
template <class Body>
void ForEachTile(int64_t rows, int64_t columns, int64_t cycles, const ParallelFor& parallel_for, const Body& body) {
  constexpr int64_t kWide = kTileVectors * kLanes;
  auto tile = [&]<int V>(int64_t first, int64_t count, std::integral_constant<int, V>) {
    const int64_t last = count - (V - 1) * kLanes;
    if (last == kLanes) {
      body(ColumnTile<V, true>{first, last});
    } else {
      body(ColumnTile<V, false>{first, last});
    }
  };
  parallel_for((columns + kWide - 1) / kWide, rows * cycles + 100, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin * kWide; first < std::min(end * kWide, columns); first += kWide) {
      const int64_t count = std::min(kWide, columns - first);
      switch ((count + kLanes - 1) / kLanes) {
        case 1:
          tile(first, count, std::integral_constant<int, 1>());
          break;
        case 2:
          tile(first, count, std::integral_constant<int, 2>());
          break;
        case 3:
          tile(first, count, std::integral_constant<int, 3>());
          break;
        default:
          tile(first, count, std::integral_constant<int, kTileVectors>());
      }
    }
  });
}

}  // namespace ctrlab
