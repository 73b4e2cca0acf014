#include "reader/columns.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "arrow/array/builder_primitive.h"
#include "arrow/array/util.h"
#include "arrow/buffer.h"
#include "arrow/compute/cast.h"
#include "arrow/type.h"
#include "arrow/util/bit_util.h"
#include "words.h"

namespace ctrlab::parquet {
namespace {

using arrow::Array;
using arrow::Status;
using ArrayPtr = std::shared_ptr<Array>;
using TypePtr = std::shared_ptr<arrow::DataType>;

TypePtr TypeOf(Kind kind) {
  switch (kind) {
    case Kind::kFloat:
      return arrow::float32();
    case Kind::kInt32:
      return arrow::int32();
    case Kind::kInt64:
      return arrow::int64();
    case Kind::kText:
      return arrow::utf8();
  }
  return nullptr;
}

// One number of the given kind, as bytes.
arrow::Result<std::vector<uint8_t>> Number(Kind kind, std::string_view text) {
  std::vector<uint8_t> bytes(WidthOf(kind));
  const char* end = text.data() + text.size();
  const auto parse = [&](auto value) {
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    std::memcpy(bytes.data(), &value, sizeof value);
    return error == std::errc() && stop == end;
  };
  const bool whole = kind == Kind::kFloat ? parse(0.0f) : kind == Kind::kInt32 ? parse(int32_t{0}) : parse(int64_t{0});
  if (!whole) return Status::Invalid("A number is needed for what is missing; received '", text, "'.");
  return bytes;
}

std::vector<std::string_view> Split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (size_t at; !separator.empty() && (at = text.find(separator)) != text.npos; text.remove_prefix(at + separator.size())) {
    parts.push_back(text.substr(0, at));
  }
  parts.push_back(text);
  return parts;
}

bool Keeps(Rule rule, float value) {
  switch (rule) {
    case Rule::kFinite:
      return std::isfinite(value);
    case Rule::kBinary:
      return value == 0 || value == 1;
    case Rule::kShare:
      return value >= 0 && value <= 1;
    case Rule::kAny:
      break;
  }
  return true;
}

// The first of `count` values that breaks the rule; `count` if none does. Blocks without a branch inside are vectorized.
int64_t FirstBad(Rule rule, const float* values, int64_t count) {
  const auto search = [&](auto keeps) {
    constexpr int64_t kBlock = 1024;
    for (int64_t start = 0; start < count; start += kBlock) {
      const int64_t end = std::min(count, start + kBlock);
      unsigned bad = 0;
      for (int64_t i = start; i < end; ++i) bad |= !keeps(values[i]);
      if (!bad) continue;
      for (int64_t i = start; i < end; ++i) {
        if (!keeps(values[i])) return i;
      }
    }
    return count;
  };
  switch (rule) {
    case Rule::kFinite:
      return search([](float value) { return Keeps(Rule::kFinite, value); });
    case Rule::kBinary:
      return search([](float value) { return Keeps(Rule::kBinary, value); });
    case Rule::kShare:
      return search([](float value) { return Keeps(Rule::kShare, value); });
    case Rule::kAny:
      break;
  }
  return count;
}

class Maker {
 public:
  Maker(const ColumnSpec& spec, const std::string& path, int64_t first) : spec_(spec), path_(path), first_(first) {}

  arrow::Result<Column> Make(ArrayPtr array) {
    if (spec_.required && array->null_count()) {
      return Wrong(" must not be empty; ", array->null_count(), " rows have no value in it.");
    }
    if (spec_.form == ColumnSpec::kOne) {
      ARROW_RETURN_NOT_OK(spec_.kind == Kind::kText ? Text(array, spec_.fallback) : Numbers(array));
      if (spec_.kind == Kind::kFloat) ARROW_RETURN_NOT_OK(Check(column_.numbers, 0, array->length()));
      return std::move(column_);
    }
    ARROW_ASSIGN_OR_RAISE(array, Lists(array));
    column_.held.push_back(array);
    const auto& lists = static_cast<const arrow::ListArray&>(*array);
    column_.offsets = lists.raw_value_offsets();
    const ArrayPtr entries = lists.values();
    if (entries->null_count()) return Wrong(" has a list with an entry that is missing.");
    if (spec_.kind == Kind::kText) {
      ARROW_RETURN_NOT_OK(Text(entries, ""));
      ARROW_RETURN_NOT_OK(CheckWords(array->length()));
    } else if (spec_.form == ColumnSpec::kJoined) {
      ARROW_RETURN_NOT_OK(CheckEntries(entries, array->length()));
      ARROW_ASSIGN_OR_RAISE(const ArrayPtr numbers, spec_.kind == Kind::kFloat ? entries : Cast(entries, TypeOf(spec_.kind)));
      ARROW_RETURN_NOT_OK(Text(numbers, ""));
    } else {
      ARROW_RETURN_NOT_OK(Numbers(entries));
      ARROW_RETURN_NOT_OK(CheckEntries(entries, array->length()));
      if (!spec_.fallback.empty()) ARROW_RETURN_NOT_OK(FillEmptyLists(array->length()));
    }
    return std::move(column_);
  }

 private:
  template <class... Parts>
  Status Wrong(const Parts&... parts) {
    return Status::Invalid(path_, ": column '", spec_.name, "'", parts...);
  }

  // Values of any type, if there are none. A number becomes a float by way of a double, rounded as `conform` in Python does it.
  arrow::Result<ArrayPtr> Cast(ArrayPtr array, const TypePtr& type) {
    if (array->null_count() == array->length()) return arrow::MakeArrayOfNull(type, array->length());
    if (type->id() == arrow::Type::FLOAT && array->type_id() != arrow::Type::DOUBLE) {
      const auto rounded = arrow::compute::CastOptions::Unsafe(arrow::float64());
      ARROW_ASSIGN_OR_RAISE(array, Cast(array, arrow::float64(), rounded));
    }
    return Cast(array, type, arrow::compute::CastOptions::Safe(type));
  }

  arrow::Result<ArrayPtr> Cast(const ArrayPtr& array, const TypePtr& type, const arrow::compute::CastOptions& options) {
    auto made = arrow::compute::Cast(*array, type, options);
    if (!made.ok()) return Wrong(" must be ", type->ToString(), ": ", made.status().message());
    return made;
  }

  // Lists with offsets of 32 bits. A missing list of a fixed size has entries, too, which belong to no list here.
  arrow::Result<ArrayPtr> Lists(ArrayPtr array) {
    if (array->type_id() == arrow::Type::LIST) return array;
    if (array->type_id() == arrow::Type::FIXED_SIZE_LIST) {
      const auto& fixed = static_cast<const arrow::FixedSizeListArray&>(*array);
      ARROW_ASSIGN_OR_RAISE(const ArrayPtr entries, fixed.Flatten());
      arrow::Int64Builder ends;
      ARROW_RETURN_NOT_OK(ends.Append(0));
      for (int64_t i = 0, end = 0; i < fixed.length(); ++i) {
        ARROW_RETURN_NOT_OK(ends.Append(end += fixed.IsNull(i) ? 0 : fixed.value_length(i)));
      }
      ARROW_ASSIGN_OR_RAISE(const ArrayPtr offsets, ends.Finish());
      ARROW_ASSIGN_OR_RAISE(array, arrow::LargeListArray::FromArrays(*offsets, *entries));
    }
    const TypePtr inner = array->type()->num_fields() ? array->type()->field(0)->type() : TypeOf(spec_.kind);
    return Cast(array, arrow::list(inner));
  }

  // Refuses a word in a list that its text would not keep: an empty one, and one that holds the separator.
  Status CheckWords(int64_t rows) {
    const std::string_view separator = spec_.separator;
    const auto torn = [&](std::string_view word) { return !separator.empty() && word.find(separator) != word.npos; };
    const auto lost = [&](std::string_view word) { return word.empty() || torn(word); };
    if (std::none_of(column_.words.begin(), column_.words.end(), lost)) return Status::OK();
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = column_.offsets[row]; i < column_.offsets[row + 1]; ++i) {
        const std::string_view word = column_.text(i);
        if (word.empty()) return Wrong(" must have no empty words in its lists; row ", first_ + row, " has one: leave it out.");
        if (torn(word)) {
          return Wrong(" must have no '", separator, "', its separator, in the words of its lists; row ", first_ + row, " has '",
                       word, "': give the column another separator=.");
        }
      }
    }
    return Status::OK();
  }

  // Of rows, or of the entries from `start` on of their lists.
  Status Check(const uint8_t* numbers, int64_t start, int64_t count) {
    const float* values = reinterpret_cast<const float*>(numbers) + start;
    const int64_t bad = FirstBad(spec_.rule, values, count);
    if (bad == count) return Status::OK();
    int64_t row = bad;
    if (column_.offsets) {
      row = 0;
      while (column_.offsets[row + 1] <= start + bad) ++row;
    }
    return Wrong(" must ", spec_.must, "; row ", first_ + row, " has ", values[bad], ".");
  }

  Status CheckEntries(ArrayPtr entries, int64_t rows) {
    if (spec_.kind != Kind::kFloat || spec_.rule == Rule::kAny) return Status::OK();
    if (!entries->type()->Equals(arrow::float32())) {
      ARROW_ASSIGN_OR_RAISE(entries, Cast(entries, arrow::float32()));
    }
    const auto& floats = static_cast<const arrow::FloatArray&>(*entries);
    const int64_t start = column_.offsets[0];
    return Check(reinterpret_cast<const uint8_t*>(floats.raw_values()), start, column_.offsets[rows] - start);
  }

  Status Numbers(ArrayPtr array) {
    const TypePtr type = TypeOf(spec_.kind);
    if (!array->type()->Equals(type)) {
      ARROW_ASSIGN_OR_RAISE(array, Cast(array, type));
    }
    const int64_t width = WidthOf(spec_.kind), rows = array->length();
    column_.memory = array->data()->buffers[1];
    if (array->null_count()) {
      ARROW_ASSIGN_OR_RAISE(const std::vector<uint8_t> fallback, Number(spec_.kind, spec_.fallback));
      ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> filled, arrow::AllocateBuffer(rows * width));
      const uint8_t* from = column_.memory->data() + array->offset() * width;
      uint8_t* to = filled->mutable_data();
      std::memcpy(to, from, rows * width);
      for (int64_t i = 0; i < rows; ++i) {
        if (array->IsNull(i)) std::memcpy(to + i * width, fallback.data(), width);
      }
      column_.memory = filled;
      column_.numbers = to;
    } else if (rows) {
      column_.numbers = column_.memory->data() + array->offset() * width;
    }
    return Status::OK();
  }

  // The words of `array`, with `fallback` for missing and empty ones.
  Status Text(ArrayPtr array, std::string_view fallback) {
    if (array->type_id() != arrow::Type::DICTIONARY) {
      return Words(array, fallback);
    }
    // Otherwise invalid UTF-8, or indices without a word, would pass.
    const Status valid = array->ValidateFull();
    if (!valid.ok()) return Wrong(" is damaged: ", valid.message());
    const auto& encoded = static_cast<const arrow::DictionaryArray&>(*array);
    column_.held.push_back(array);
    ARROW_RETURN_NOT_OK(Words(encoded.dictionary(), fallback));
    ArrayPtr places = encoded.indices();
    if (places->type_id() != arrow::Type::INT32) {
      ARROW_ASSIGN_OR_RAISE(places, Cast(places, arrow::int32()));
    }
    column_.held.push_back(places);
    column_.places = static_cast<const arrow::Int32Array&>(*places).raw_values();
    if (places->null_count()) {
      column_.made_places.assign(column_.places, column_.places + places->length());
      for (int64_t i = 0; i < places->length(); ++i) {
        if (places->IsNull(i)) column_.made_places[i] = static_cast<int32_t>(column_.words.size());
      }
      column_.places = column_.made_places.data();
      column_.words.push_back(fallback);
    }
    return Status::OK();
  }

  Status Words(ArrayPtr array, std::string_view fallback) {
    if (arrow::is_floating(array->type_id()) && spec_.kind == Kind::kText) {  // whole numbers of which some are missing
      ARROW_ASSIGN_OR_RAISE(array, Cast(array, arrow::int64()));
    }
    if (array->type_id() != arrow::Type::STRING) {
      ARROW_ASSIGN_OR_RAISE(array, Cast(array, arrow::utf8()));
    }
    const Status valid = array->ValidateFull();
    if (!valid.ok()) return Wrong(" must be text in UTF-8: ", valid.message());
    column_.held.push_back(array);
    const auto& words = static_cast<const arrow::StringArray&>(*array);
    column_.words.reserve(words.length() + 1);
    Digits digits;
    for (int64_t i = 0; i < words.length(); ++i) {
      std::string_view word = words.IsNull(i) ? std::string_view() : words.GetView(i);
      if (spec_.kind == Kind::kText) word = WordOf(word, digits);
      if (word.data() == digits) word = *column_.made_words.emplace_back(std::make_shared<const std::string>(word));
      column_.words.push_back(word.empty() ? fallback : word);
    }
    return Status::OK();
  }

  Status FillEmptyLists(int64_t rows) {
    int64_t empty = 0;
    for (int64_t i = 0; i < rows; ++i) empty += column_.offsets[i + 1] == column_.offsets[i];
    if (!empty) return Status::OK();
    const int64_t width = WidthOf(spec_.kind);
    std::vector<uint8_t> fallback;
    for (std::string_view part : Split(spec_.fallback, spec_.separator)) {
      ARROW_ASSIGN_OR_RAISE(const auto number, Number(spec_.kind, part));
      fallback.insert(fallback.end(), number.begin(), number.end());
    }
    const int64_t entries = column_.offsets[rows] - column_.offsets[0];
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> filled,
                          arrow::AllocateBuffer(entries * width + empty * static_cast<int64_t>(fallback.size())));
    uint8_t* to = filled->mutable_data();
    std::vector<int32_t> offsets{0};
    offsets.reserve(rows + 1);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t bytes = (column_.offsets[i + 1] - column_.offsets[i]) * width;
      const uint8_t* from = bytes ? column_.numbers + column_.offsets[i] * width : fallback.data();
      const int64_t size = bytes ? bytes : static_cast<int64_t>(fallback.size());
      std::memcpy(to, from, size);
      to += size;
      offsets.push_back(offsets.back() + static_cast<int32_t>(size / width));
    }
    column_.memory = filled;
    column_.numbers = filled->data();
    column_.made_offsets = std::move(offsets);
    column_.offsets = column_.made_offsets.data();
    return Status::OK();
  }

  const ColumnSpec& spec_;
  const std::string& path_;
  const int64_t first_;
  Column column_;
};

}  // namespace

arrow::Result<Column> MakeColumn(const ColumnSpec& spec, std::shared_ptr<arrow::Array> array, const std::string& path,
                                 int64_t first) {
  return Maker(spec, path, first).Make(std::move(array));
}

arrow::Status CheckSpec(const ColumnSpec& spec) {
  if (spec.kind == Kind::kText || spec.form == ColumnSpec::kJoined || spec.required || spec.fallback.empty()) return Status::OK();
  for (std::string_view part : Split(spec.fallback, spec.form == ColumnSpec::kList ? spec.separator : "")) {
    ARROW_RETURN_NOT_OK(Number(spec.kind, part).status());
  }
  return Status::OK();
}

}  // namespace ctrlab::parquet
