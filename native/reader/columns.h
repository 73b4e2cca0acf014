// Columns of a block of rows as Arrow decoded them, and how rows are taken out of them.
//
//   numbers           values [rows], where Arrow put them; a copy only where values are missing or of another type
//   text              words and, where the file has a dictionary, places [rows] in them
//   lists of either   offsets [rows + 1] into the entries
//
// No TensorFlow in here: native/check/check_reader.cc runs this alone under sanitizers.

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

inline int64_t WidthOf(Kind kind) { return kind == Kind::kInt64 ? 8 : 4; }

struct ColumnSpec {
  enum Form { kOne, kList, kJoined };  // one value a row, a list of them, or a list written out as one text

  std::string name;
  Kind kind = Kind::kFloat;  // of the values, or of the lists' entries
  Form form = kOne;
  std::string fallback;   // for what is missing, and for empty text; of lists for those without entries
  std::string separator;  // between the entries of a list in text
  bool required = false;  // nothing may be missing
};

struct Column {
  std::shared_ptr<arrow::Buffer> memory;  // that holds the numbers
  const uint8_t* numbers = nullptr;       // [rows], or the entries
  const int32_t* offsets = nullptr;       // of lists
  std::vector<std::string_view> words;    // of text
  const int32_t* places = nullptr;        // of the texts in `words`; null: one after the other

  std::vector<std::shared_ptr<arrow::Array>> held;  // what the pointers point into, with
  std::vector<int32_t> made_offsets, made_places;   // these

  std::string_view text(int64_t i) const { return words[places ? places[i] : i]; }
};

// `array` as a column. `path` is for messages. The column points into `spec`, too.
arrow::Result<Column> MakeColumn(const ColumnSpec& spec, std::shared_ptr<arrow::Array> array, const std::string& path);

// Is `fallback` what the kind needs?
arrow::Status CheckSpec(const ColumnSpec& spec);

}  // namespace ctrlab::parquet
