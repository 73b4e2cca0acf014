// The scalar twins of lookup.h: the definition in plain loops, summed in double. Tests and the checker compare with these.

#pragma once

#include <map>
#include <vector>

#include "kernels/lookup/lookup.h"

namespace ctrlab::scalar {

// Calls visit(row of the output, id, weight) for every known id of a column, rows in order.
template <class Visit>
void ForEachLookup(const LookupColumn& column, int64_t rows, const Visit& visit) {
  for (int64_t b = 0; b < rows; ++b) {
    const int64_t begin = column.splits ? column.splits[b] : b;
    const int64_t end = column.splits ? column.splits[b + 1] : b + 1;
    int64_t known = 0;
    for (int64_t i = begin; i < end; ++i) known += column.ids[i] >= 0;
    for (int64_t i = begin; i < end; ++i) {
      if (column.ids[i] < 0) continue;
      visit(column.combiner == kRows ? i : b, column.ids[i], column.combiner == kMean ? 1.0 / known : 1.0);
    }
  }
}

inline int64_t OutputRows(const LookupInput& input, const LookupColumn& column) {
  return column.combiner == kRows && column.splits ? column.splits[input.rows] : input.rows;
}

inline void Lookup(const LookupInput& input, const float* const* tables, float* const* out) {
  for (int64_t c = 0; c < input.column_count; ++c) {
    const LookupColumn& column = input.columns[c];
    const int64_t D = input.tables[column.table].dim, width = input.widths[column.output], rows = OutputRows(input, column);
    std::vector<double> sums(rows * D, 0.0);
    ForEachLookup(column, input.rows, [&](int64_t row, int64_t id, double weight) {
      for (int64_t d = 0; d < D; ++d) sums[row * D + d] += weight * tables[column.table][id * D + d];
    });
    for (int64_t k = 0; k < rows * D; ++k) {
      out[column.output][k / D * width + column.offset + k % D] = static_cast<float>(sums[k]);
    }
  }
}

inline void LookupMerge(const LookupInput& input, const float* const* d_out, MergedRows* merged) {
  for (int64_t t = 0; t < input.table_count; ++t) {
    const int64_t D = input.tables[t].dim;
    std::map<int64_t, std::vector<double>> sums;
    for (int64_t c = 0; c < input.column_count; ++c) {
      const LookupColumn& column = input.columns[c];
      if (column.table != t) continue;
      const float* d = d_out[column.output] + column.offset;
      ForEachLookup(column, input.rows, [&](int64_t row, int64_t id, double weight) {
        std::vector<double>& sum = sums.try_emplace(id, D, 0.0).first->second;
        for (int64_t k = 0; k < D; ++k) sum[k] += weight * d[row * input.widths[column.output] + k];
      });
    }
    merged[t].count = 0;
    for (const auto& [id, sum] : sums) {
      for (int64_t k = 0; k < D; ++k) merged[t].rows[merged[t].count * D + k] = static_cast<float>(sum[k]);
      merged[t].ids[merged[t].count++] = id;
    }
  }
}

}  // namespace ctrlab::scalar
