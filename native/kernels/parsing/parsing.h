// Raw columns to what a model computes with: text to ids, text to numbers, all columns of a batch in one call.
//
// Shapes: C columns, B rows. A column has one value a row, or a list: values side by side with splits, or one text that is cut
// at a separator, where parts that are empty count for nothing. The caller has checked splits; a kernel may trust them.

#pragma once

#include <cmath>

#include "kernels/abi.h"
#include "kernels/parsing/text.h"

namespace ctrlab {

enum class Encoding : int32_t {
  kHash,        // Fingerprint64 modulo buckets
  kVocabulary,  // the place in `words`, -1 where it is none of them
  kIdentity,    // the whole number itself, in [0, buckets)
};

struct IdSource {
  const StringView* texts;  // [B], or with splits [N]; null where integers are given
  const int64_t* integers;  // the same, of a column of kIdentity that came as numbers
  const int64_t* splits;    // [B + 1]: row b has values splits[b] to splits[b + 1] - 1; null: row b has value b
  StringView separator;     // a value is a list in one text, cut here; size 0: a value is a value
  int64_t max_length;       // of a list, only the last this many count; 0: all
  Encoding encoding;
  int64_t buckets;
  const StringView* words;  // [buckets] of kVocabulary, the first of equal words counts
};

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
  const StringView* texts;  // [B] lists in one text each; null where numbers are given
  const float* numbers;     // [B], or with splits [N]
  const int64_t* splits;    // [B + 1]; null: one number a row
  StringView separator;     // between the numbers of a text
  Transform transform;
  float low, width;
};

inline float Transformed(const NumberSource& column, float x) {
  if (column.transform == Transform::kNone) return x;
  x -= column.low;
  if (column.transform == Transform::kMinMax) return x / column.width;
  return std::log1p(x < 0 ? 0 : x);  // a NaN stays one
}

struct NumberInput {
  const NumberSource* columns;  // [C]
  int64_t column_count;         // C
  int64_t rows;                 // B
};

// A cell that is no number: where a kernel finds several, the one of the first column, there the first row. -1, -1: there
// is none.
struct Fault {
  int64_t column, row;
};

}  // namespace ctrlab

// splits[c] [B + 1] of the ids that column c will have; null for columns of one value a row.
CTRLAB_EXPORT void ctrlab_id_splits(const ctrlab::IdInput* input, int64_t* const* splits,
                                    const ctrlab::ParallelFor* parallel_for);

// ids[c], [B] or [splits[c][B]], uninitialised, in the order of rows and of their values.
CTRLAB_EXPORT void ctrlab_parse_ids(const ctrlab::IdInput* input, const int64_t* const* splits, int64_t* const* ids,
                                    ctrlab::Fault* fault, const ctrlab::ParallelFor* parallel_for);

// out [B, C], uninitialised: the number, or the mean of the list (0 of none), transformed. A list is summed first to last.
CTRLAB_EXPORT void ctrlab_parse_numbers(const ctrlab::NumberInput* input, float* out, ctrlab::Fault* fault,
                                        const ctrlab::ParallelFor* parallel_for);
