// Columns of a block of rows, decoded by Arrow, from which rows are taken.
//
//   numbers           values [rows], in Arrow's memory; copied only if values are missing or of another type
//   text              words (see native/words.h) and, if the file has a dictionary, indices [rows] into them
//   lists of either   offsets [rows + 1] into the entries
//
// This file uses no TensorFlow: native/check/check_reader.cc runs it alone under sanitizers.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arrow/array.h"
#include "arrow/result.h"

namespace ctrlab::parquet {

enum class Kind { kFloat, kInt32, kInt64, kText };

// What floats may be: anything, finite, 0 or 1, or in [0, 1].
enum class Rule { kAny, kFinite, kBinary, kShare };

inline int64_t WidthOf(Kind kind) { return kind == Kind::kInt64 ? 8 : 4; }

struct ColumnSpec {
  enum Form { kOne, kList, kJoined };  // one value per row, a list, or a list joined into one text

  std::string name;
  Kind kind = Kind::kFloat;  // of the values, or of the entries in lists
  Form form = kOne;
  std::string fallback;   // replaces missing values and empty text; for lists, an empty list
  std::string separator;  // between the entries of a list in one text
  bool required = false;  // missing values are an error
  Rule rule = Rule::kAny;
  std::string must;  // the rule in words, for messages
};

struct Column {
  std::shared_ptr<arrow::Buffer> memory;  // owns the numbers
  const uint8_t* numbers = nullptr;       // [rows], or the entries
  const int32_t* offsets = nullptr;       // [rows + 1], of lists
  std::vector<std::string_view> words;    // the texts
  const int32_t* places = nullptr;        // index of each text in `words`; null: in order

  std::vector<std::shared_ptr<arrow::Array>> held;             // own the memory of the pointers above,
  std::vector<int32_t> made_offsets, made_places;              // together with these
  std::vector<std::shared_ptr<const std::string>> made_words;  // texts that stay where they are when the column moves

  std::string_view text(int64_t i) const { return words[places ? places[i] : i]; }
};

// Makes a column from `array`. `path`, and `first`, the place of the array's first row in it, are for messages. The column also
// points into `spec`.
arrow::Result<Column> MakeColumn(const ColumnSpec& spec, std::shared_ptr<arrow::Array> array, const std::string& path,
                                 int64_t first = 0);

// Checks that `fallback` fits the kind.
arrow::Status CheckSpec(const ColumnSpec& spec);

}  // namespace ctrlab::parquet
