// What a request is parsed into: one array for each input of a model's signature. Parsers know no TensorFlow; they write straight
// into the memory that an `Arrays` gives them, which in a server is that of tensors.

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "processor/types.h"

namespace ctrlab::processor {

// How a call ended. The numbers are those of native/processor/processor_c.h.
enum class Code : int32_t { kOk = 0, kInvalid = 1, kNotFound = 2, kUnavailable = 3, kFailed = 4 };

// A code, and one sentence with the rule, what was received, where, and the cure.
struct [[nodiscard]] Answer {
  Code code = Code::kOk;
  std::string sentence;

  bool ok() const { return code == Code::kOk; }
};

template <class... Parts>
Answer Refusal(Code code, const Parts&... parts) {
  std::string sentence;
  const auto add = [&](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      sentence += std::to_string(part);
    } else {
      sentence += part;
    }
  };
  (add(parts), ...);
  return {code, std::move(sentence)};
}

// A text from a request, to be quoted in a sentence: at most its first few words, cut between two characters of UTF-8.
inline std::string Shown(std::string_view text) {
  constexpr size_t kMost = 60;
  if (text.size() <= kMost) return std::string(text);
  size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

template <class... Parts>
Answer Invalid(const Parts&... parts) {
  return Refusal(Code::kInvalid, parts...);
}

// The most values of an array, and how many of them a few bytes may stand for.
constexpr int64_t kMostValues = int64_t{1} << 31, kMostRepeated = 1 << 16;

using Shape = std::vector<int64_t>;

// The number of values of an array; -1 if a size is below 0, or they are too many. A row without a value counts as one, because
// a model may make a value of it.
inline int64_t CountOf(std::span<const int64_t> shape) {
  int64_t count = 1, held = 1;
  for (const int64_t size : shape) {
    if (size < 0 || size >= kMostValues) return -1;
    count *= size;
    held *= std::max<int64_t>(size, 1);
    if (held >= kMostValues) return -1;
  }
  return count;
}

// [-1, 3]; a size of -1 may be any.
inline std::string Words(std::span<const int64_t> shape) {
  std::string words = "[";
  for (const int64_t size : shape) words += (words.size() > 1 ? ", " : "") + std::to_string(size);
  return words + "]";
}

// A shape from a request, as a sentence has it.
inline std::string ShownShape(std::span<const int64_t> shape) {
  return Shown(Words(shape.first(std::min<size_t>(shape.size(), 32))));
}

// Names as a sentence has them.
inline std::string Joined(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ", ") + name;
  return joined;
}

// The inputs of a signature, each an array whose first size is the number of rows. A column of lists has two, of one dimension:
// "column/values" and "column/row_splits".
//
// Candidates may share users. Then some columns have a row per user, the others one per candidate, and the input "candidates" says
// how many each user has: the first user's candidates come first. A request without it has one candidate per user.
class Signature {
 public:
  struct Input {
    std::string name;
    Type type;
    Shape row = {};      // the shape of a row; -1: any size, the same in all rows of a request
    bool words = false;  // whether its texts are ids: then they are words, as native/words.h has them

    // The shape of the array, -1 for its rows.
    Shape shape() const {
      Shape whole = {-1};
      whole.insert(whole.end(), row.begin(), row.end());
      return whole;
    }
    std::string Dimensions() const { return row.empty() ? "one dimension" : std::to_string(row.size() + 1) + " dimensions"; }
    bool operator==(const Input&) const = default;
  };

  // What stands for a value that a request leaves out: this number, an empty word, or an empty list. (Of an empty word or list the
  // graph makes the schema's default.) `json` is the default as the manifest says it.
  struct Default {
    double number = 0;
    int64_t whole = 0;
    std::string json = "null";

    bool operator==(const Default&) const = default;
  };
  using Defaults = std::map<std::string, Default, std::less<>>;

  // A column as people write it: one value or one list per row. It holds the numbers of its inputs; `splits` is -1 if the column
  // has no lists.
  struct Column {
    std::string name;
    int32_t values, splits;
    bool per_user = false;           // whether it has a row per user, not per candidate
    std::optional<Default> missing;  // none: every row has a value

    bool operator==(const Column&) const = default;
  };

  static constexpr const char* kCounts = "candidates";

  // `per_user` names the columns of users, if candidates share them: the input "candidates" is of 64 bits then. `defaults` are
  // those of the columns that a request may leave out.
  explicit Signature(std::vector<Input> inputs, const std::vector<std::string>& per_user = {}, const Defaults& defaults = {})
      : inputs_(std::move(inputs)), columns_by_input_(inputs_.size(), -1) {
    for (int32_t i = 0; i < size(); ++i) places_.emplace(inputs_[i].name, i);
    if (!per_user.empty()) counts_ = PlaceOf(kCounts);
    for (int32_t i = 0; i < size(); ++i) {
      const std::string_view name = inputs_[i].name, tail = name.substr(std::min(name.find('/'), name.size()));
      if (tail == "/row_splits" || i == counts_) continue;
      const std::string column(name.substr(0, name.size() - (tail == "/values" ? tail.size() : 0)));
      columns_of_.emplace(column, static_cast<int32_t>(columns_.size()));
      const bool user = std::find(per_user.begin(), per_user.end(), column) != per_user.end();
      const int32_t splits = tail == "/values" ? PlaceOf(column + "/row_splits") : -1;
      const auto found = defaults.find(column);
      if (splits < 0) columns_by_input_[i] = static_cast<int32_t>(columns_.size());
      columns_.push_back({column, i, splits, user, found == defaults.end() ? std::nullopt : std::optional(found->second)});
    }
  }

  bool operator==(const Signature& other) const { return inputs_ == other.inputs_ && columns_ == other.columns_; }
  int32_t size() const { return static_cast<int32_t>(inputs_.size()); }
  const Input& operator[](int32_t i) const { return inputs_[i]; }
  // All columns; the input "candidates" is not among them.
  const std::vector<Column>& columns() const { return columns_; }
  // The input with the numbers of candidates, or -1 where no users are shared.
  int32_t counts() const { return counts_; }

  // The number of the input, or -1.
  int32_t PlaceOf(std::string_view name) const { return Find(places_, name); }
  // The number of the column, or -1.
  int32_t ColumnOf(std::string_view name) const { return Find(columns_of_, name); }
  // Whether input i is a whole column, with one value per row.
  bool IsColumn(int32_t i) const { return columns_by_input_[i] >= 0; }
  // What stands for a missing value of input i, if it is a column with one value per row that may be missing; else null.
  const Default* MissingIn(int32_t i) const {
    return IsColumn(i) && columns_[columns_by_input_[i]].missing ? &*columns_[columns_by_input_[i]].missing : nullptr;
  }

  // The shape that an array of this shape gets as input i: as in Keras, a last size of 1 may be left out, or be too much. Empty if
  // the shape is another.
  Shape Fit(int32_t i, std::span<const int64_t> given) const {
    Shape row = inputs_[i].row, found(given.begin(), given.end());
    if (found.size() == row.size() + 2 && found.back() == 1) found.pop_back();
    if (found.size() == row.size() && found.size() > 0 && row.back() == 1) found.push_back(1);
    if (found.size() != row.size() + 1) return {};
    for (size_t k = 0; k < row.size(); ++k) {
      if (row[k] >= 0 && row[k] != found[k + 1]) return {};
    }
    return found;
  }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Places = std::unordered_map<std::string, int32_t, Hash, std::equal_to<>>;

  static int32_t Find(const Places& places, std::string_view name) {
    const auto at = places.find(name);
    return at == places.end() ? -1 : at->second;
  }

  std::vector<Input> inputs_;
  std::vector<int32_t> columns_by_input_;  // of inputs that are a whole column; -1 of others
  std::vector<Column> columns_;
  int32_t counts_ = -1;
  Places places_, columns_of_;
};

// The most that a request may bring: rows of a column, and values of all inputs together.
struct Limit {
  int64_t rows = kMostValues, values = std::numeric_limits<int64_t>::max();
};

// The arrays of one request.
class Arrays {
 public:
  virtual ~Arrays() = default;
  Limit limit;
  // Makes input i an array of this shape, uninitialized: `data` is its memory, null for text. False: there is too little memory.
  virtual bool Make(int32_t i, const Shape& shape, void** data) = 0;
  // Value k of input i, whose type is text. The bytes are copied.
  virtual void SetText(int32_t i, int64_t k, std::string_view text) = 0;
  // Whether the request may have this input, although the model does not know it.
  virtual bool Ignore(std::string_view) { return false; }
};

// A model's output, an array whose first size is the number of rows.
struct Output {
  std::string name;
  Type type;
  Shape shape;
  const void* values;

  int64_t rows() const { return shape[0]; }
  // The number of values in a row.
  int64_t width() const { return CountOf(std::span(shape).subspan(1)); }
  std::string_view bytes() const {
    return {static_cast<const char*>(values), static_cast<size_t>(rows() * width() * BytesOf(type))};
  }
};

// The model that a request addresses, as far as the request names it; and in an answer, the model that answers.
struct Addressee {
  std::string model, label, signature;
  std::optional<int64_t> version;
};

}  // namespace ctrlab::processor
