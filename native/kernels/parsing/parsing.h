// Turns raw columns into a model's input: text into ids, and text into numbers, for all columns of a batch in one call.
//
// Shapes: C columns, B rows. A column has one value per row, or a list: flat values with splits, or one text with separators,
// whose empty parts are ignored. The caller has checked splits; a kernel may trust them.

#pragma once

#include <cmath>

#include "kernels/abi.h"
#include "kernels/parsing/text.h"

namespace ctrlab {

enum class Encoding : int32_t {
  kHash,        // Fingerprint64 modulo buckets
  kVocabulary,  // the index in `words`, or -1
  kIdentity,    // the whole number itself, in [0, buckets)
};

struct IdSource {
  const StringView* texts;  // [B], or with splits [N]; null if integers are given
  const int64_t* integers;  // the same, for a kIdentity column that holds numbers, or a kVocabulary column that holds indices
  const int64_t* splits;    // [B + 1]: row b has values splits[b] to splits[b + 1] - 1; null: row b has value b
  StringView separator;     // splits a list in one text; size 0: each text is one value
  int64_t max_length;       // only the last this many entries of a list count; 0: all
  Encoding encoding;
  int64_t buckets;
  const StringView* words;  // [buckets] for kVocabulary; the first of equal words counts
};

// The least id that a column's integers may be; an index of -1 is an unknown word.
inline int64_t LeastId(const IdSource& column) { return column.encoding == Encoding::kVocabulary ? -1 : 0; }

struct IdInput {
  const IdSource* columns;  // [C]
  int64_t column_count;     // C
  int64_t rows;             // B
};

enum class Transform : int32_t {
  kNone,
  kLog1p,   // log(1 + max(x - low, 0))
  kMinMax,  // (x - low) / width
};

struct NumberSource {
  const StringView* texts;  // [B], one list per text; null if numbers are given
  const float* numbers;     // [B], or with splits [N]
  const int64_t* splits;    // [B + 1]; null: one number per row
  StringView separator;     // between the numbers in a text
  Transform transform;
  float low, width;
};

inline float Transformed(const NumberSource& column, float x) {
  if (column.transform == Transform::kNone) return x;
  x -= column.low;
  if (column.transform == Transform::kMinMax) return x / column.width;
  return std::log1p(x < 0 ? 0 : x);  // NaN stays NaN
}

struct NumberInput {
  const NumberSource* columns;  // [C]
  int64_t column_count;         // C
  int64_t rows;                 // B
};

// A cell that is not a number. If there are several, kernels report the first row of the first column. -1, -1: there is no such
// cell.
struct Fault {
  int64_t column, row;
};

}  // namespace ctrlab

// splits[c] [B + 1] of the ids of column c; null for columns with one value per row.
CTRLAB_EXPORT void ctrlab_id_splits(const ctrlab::IdInput* input, int64_t* const* splits,
                                    const ctrlab::ParallelFor* parallel_for);

// ids[c], [B] or [splits[c][B]], uninitialised on entry, in the order of rows and of their values.
CTRLAB_EXPORT void ctrlab_parse_ids(const ctrlab::IdInput* input, const int64_t* const* splits, int64_t* const* ids,
                                    ctrlab::Fault* fault, const ctrlab::ParallelFor* parallel_for);

// out [B, C], uninitialised on entry: each number, or the mean of each list (0 if empty; summed in order), transformed.
CTRLAB_EXPORT void ctrlab_parse_numbers(const ctrlab::NumberInput* input, float* out, ctrlab::Fault* fault,
                                        const ctrlab::ParallelFor* parallel_for);
