// How a table's rows lie in memory and in files. Rows that a server only reads may be narrower than float32:
//
//   float32   D floats
//   bf16      D bfloat16
//   int8      a float, the row's scale, and D int8: number d is scale * q[d]
//
// each filled up with zeros to whole words of 4 bytes. A row of zero words is a row of zeros. ctrlab/serving/rows.py packs them.

#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace ctrlab {

enum class RowFormat : int64_t { kFloat32 = 0, kBf16 = 1, kInt8 = 2 };

constexpr const char* kRowFormats[] = {"float32", "bf16", "int8"};

// The words of a row of `dim` numbers.
constexpr int64_t RowWords(RowFormat format, int64_t dim) {
  switch (format) {
    case RowFormat::kBf16:
      return (dim + 1) / 2;
    case RowFormat::kInt8:
      return 1 + (dim + 3) / 4;
    default:
      return dim;
  }
}

// out[0:dim] += the row's numbers; with `set`, out[0:dim] = the row's numbers.
template <bool set>
inline void AddRow(RowFormat format, const float* row, int64_t dim, float* __restrict out) {
  const auto put = [&](int64_t d, float number) { out[d] = set ? number : out[d] + number; };
  if (format == RowFormat::kInt8) {
    const float scale = row[0];
    const int8_t* const q = reinterpret_cast<const int8_t*>(row + 1);
    for (int64_t d = 0; d < dim; ++d) put(d, scale * static_cast<float>(q[d]));
  } else if (format == RowFormat::kBf16) {
    const char* const halves = reinterpret_cast<const char*>(row);
    for (int64_t d = 0; d < dim; ++d) {
      uint16_t high;
      std::memcpy(&high, halves + 2 * d, 2);
      put(d, std::bit_cast<float>(uint32_t{high} << 16));
    }
  } else {
    for (int64_t d = 0; d < dim; ++d) put(d, row[d]);
  }
}

}  // namespace ctrlab
