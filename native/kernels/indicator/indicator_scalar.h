// The scalar twins of indicator.h: the definition in plain loops, summed in double. Tests and the checker compare with these.

#pragma once

#include <iterator>
#include <vector>

#include "kernels/indicator/indicator.h"

namespace ctrlab::scalar {

// Calls visit(row, position, id) for every known id of a column, rows in order.
template <class Visit>
void ForEachId(const IdColumn& column, int64_t rows, const Visit& visit) {
  for (int64_t b = 0; b < rows; ++b) {
    const int64_t begin = column.splits ? column.splits[b] : b;
    const int64_t end = column.splits ? column.splits[b + 1] : b + 1;
    for (int64_t i = begin; i < end; ++i) {
      if (column.ids[i] >= 0) visit(b, i, column.ids[i]);
    }
  }
}

inline void Indicator(const IndicatorInput& input, const float* kernel, float* out) {
  const int64_t O = input.outputs;
  std::vector<double> sums(input.rows * O, 0.0);
  for (int64_t c = 0; c < input.column_count; ++c) {
    const IdColumn& column = input.columns[c];
    ForEachId(column, input.rows, [&](int64_t b, int64_t i, int64_t id) {
      const double weight = column.weights ? column.weights[i] : 1.0;
      for (int64_t o = 0; o < O; ++o) sums[b * O + o] += weight * kernel[(column.offset + id) * O + o];
    });
  }
  for (int64_t k = 0; k < std::ssize(sums); ++k) out[k] = static_cast<float>(sums[k]);
}

inline void IndicatorGradient(const IndicatorInput& input, const float* d_out, float* d_kernel) {
  const int64_t O = input.outputs;
  for (int64_t c = 0; c < input.column_count; ++c) {
    const IdColumn& column = input.columns[c];
    std::vector<double> sums(column.size * O, 0.0);
    ForEachId(column, input.rows, [&](int64_t b, int64_t i, int64_t id) {
      const double weight = column.weights ? column.weights[i] : 1.0;
      for (int64_t o = 0; o < O; ++o) sums[id * O + o] += weight * d_out[b * O + o];
    });
    for (int64_t k = 0; k < std::ssize(sums); ++k) d_kernel[column.offset * O + k] = static_cast<float>(sums[k]);
  }
}

inline void IndicatorWeightsGradient(const IndicatorInput& input, const float* kernel, const float* d_out,
                                     float* const* d_weights) {
  const int64_t O = input.outputs;
  for (int64_t c = 0; c < input.column_count; ++c) {
    const IdColumn& column = input.columns[c];
    const int64_t count = column.splits ? column.splits[input.rows] : input.rows;
    for (int64_t i = 0; i < count; ++i) d_weights[c][i] = 0;
    ForEachId(column, input.rows, [&](int64_t b, int64_t i, int64_t id) {
      double sum = 0;
      for (int64_t o = 0; o < O; ++o) sum += double{kernel[(column.offset + id) * O + o]} * d_out[b * O + o];
      d_weights[c][i] = static_cast<float>(sum);
    });
  }
}

}  // namespace ctrlab::scalar
