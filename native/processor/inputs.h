// What a request is parsed into: one array for each input of a model's signature. Parsers know no TensorFlow; they write straight
// into the memory that an `Arrays` gives them, which in a server is that of tensors.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

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

enum class Type : int32_t { kText, kInt32, kInt64, kFloat };

inline const char* NameOf(Type type) {
  constexpr const char* kNames[] = {"string", "int32", "int64", "float32"};
  return kNames[static_cast<int32_t>(type)];
}

inline int64_t BytesOf(Type type) { return type == Type::kInt64 ? 8 : 4; }

// The inputs of a signature, each an array of one dimension. A column of lists has two: "column/values" and "column/row_splits".
//
// Candidates may share users. Then some columns have a row per user, the others one per candidate, and the input "candidates" says
// how many each user has: the first user's candidates come first. A request without it has one candidate per user.
class Signature {
 public:
  struct Input {
    std::string name;
    Type type;

    bool operator==(const Input&) const = default;
  };

  // A column as people write it: one value or one list per row. It holds the numbers of its inputs; `splits` is -1 if the column
  // has no lists.
  struct Column {
    std::string name;
    int32_t values, splits;
    bool per_user = false;  // whether it has a row per user, not per candidate

    bool operator==(const Column&) const = default;
  };

  static constexpr const char* kCounts = "candidates";

  // `per_user` names the columns of users, if candidates share them: the input "candidates" is of 64 bits then.
  explicit Signature(std::vector<Input> inputs, const std::vector<std::string>& per_user = {}) : inputs_(std::move(inputs)) {
    for (int32_t i = 0; i < size(); ++i) places_.emplace(inputs_[i].name, i);
    if (!per_user.empty()) counts_ = PlaceOf(kCounts);
    for (int32_t i = 0; i < size(); ++i) {
      const std::string_view name = inputs_[i].name, tail = name.substr(std::min(name.find('/'), name.size()));
      if (tail == "/row_splits" || i == counts_) continue;
      const std::string column(name.substr(0, name.size() - (tail == "/values" ? tail.size() : 0)));
      columns_of_.emplace(column, static_cast<int32_t>(columns_.size()));
      const bool user = std::find(per_user.begin(), per_user.end(), column) != per_user.end();
      columns_.push_back({column, i, tail == "/values" ? PlaceOf(column + "/row_splits") : -1, user});
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
  std::vector<Column> columns_;
  int32_t counts_ = -1;
  Places places_, columns_of_;
};

// The arrays of one request.
class Arrays {
 public:
  virtual ~Arrays() = default;
  // Makes input i an array of n values, uninitialized: `data` is its memory, null for text. False: there is too little memory.
  virtual bool Make(int32_t i, int64_t n, void** data) = 0;
  // Value k of input i, whose type is text. The bytes are copied.
  virtual void SetText(int32_t i, int64_t k, std::string_view text) = 0;
};

// Makes each input once, and reports a missing input. If candidates share users, it also reports numbers of rows that do not fit
// together. (Otherwise the graph reports these.)
class Received {
 public:
  Received(const Signature& signature, Arrays* arrays) : signature_(signature), arrays_(arrays), lengths_(signature.size(), -1) {}

  Answer Make(int32_t i, int64_t n, void** data) {
    if (lengths_[i] >= 0) return Invalid("A request has each input once; it has ", signature_[i].name, " twice: leave one out.");
    if (!arrays_->Make(i, n, data)) {
      return Refusal(Code::kUnavailable, "There is no memory for ", n, " values of ", signature_[i].name, ": send fewer rows.");
    }
    lengths_[i] = n;
    if (i == signature_.counts()) candidates_ = static_cast<int64_t*>(*data);
    return {};
  }

  // Call it when all arrays are filled.
  Answer Finish() {
    for (int32_t i = 0; i < signature_.size(); ++i) {
      if (lengths_[i] < 0 && i != signature_.counts()) {
        return Invalid("A request has every input of the model; ", signature_[i].name, ", of type ", NameOf(signature_[i].type),
                       ", is missing.");
      }
    }
    return signature_.counts() < 0 ? Answer{} : FinishShared();
  }

  Answer Unknown(std::string_view name) const {
    return Invalid("A request has the inputs of the model and no others; ", Shown(name), " is none of them: leave it out.");
  }

 private:
  // All columns of a kind (per user, or per candidate) must have as many rows as the first one of that kind. There must be one
  // number of candidates per user, and these must add up to the rows of the candidates.
  Answer FinishShared() {
    const Signature::Column* firsts[2] = {nullptr, nullptr};  // the first column per candidate, and the first per user
    for (const Signature::Column& column : signature_.columns()) {
      const Signature::Column*& first = firsts[column.per_user];
      if (!first) first = &column;
      if (RowsOf(column) < 0) return Invalid("Row splits begin with 0; those of ", column.name, " are empty.");
      if (RowsOf(column) == RowsOf(*first)) continue;
      return Invalid("Columns of ", column.per_user ? "users" : "candidates", " have one number of rows; ", first->name, " has ",
                     RowsOf(*first), " and ", column.name, " has ", RowsOf(column), ".");
    }
    const int32_t counts = signature_.counts();
    const int64_t rows = RowsOf(*firsts[0]), users = RowsOf(*firsts[1]);
    if (lengths_[counts] < 0) {
      if (rows != users) {
        return Invalid("A request without ", Signature::kCounts, " has one candidate per user; received ", users, " rows of ",
                       firsts[1]->name, " and ", rows, " of ", firsts[0]->name, ": say how many candidates each user has.");
      }
      void* data;
      if (Answer bad = Make(counts, users, &data); !bad.ok()) return bad;
      std::fill_n(candidates_, users, 1);
    }
    if (lengths_[counts] != users) {
      return Invalid(Signature::kCounts, " has a number for each user; received ", lengths_[counts], " numbers and ", users,
                     " rows of ", firsts[1]->name, ".");
    }
    int64_t left = rows;  // a sum could overflow
    bool fits = true;
    for (int64_t user = 0; user < users; ++user) {
      const int64_t count = candidates_[user];
      if (count < 0) return Invalid("A user has 0 candidates or more; received ", count, " for user ", user, ".");
      fits = fits && count <= left;
      left -= fits ? count : 0;
    }
    if (fits && left == 0) return {};
    return Invalid("The numbers in ", Signature::kCounts, " add up to the rows of candidates; they are ", fits ? "fewer" : "more",
                   " than the ", rows, " rows of ", firsts[0]->name, ".");
  }

  int64_t RowsOf(const Signature::Column& column) const {
    return column.splits < 0 ? lengths_[column.values] : lengths_[column.splits] - 1;
  }

  const Signature& signature_;
  Arrays* const arrays_;
  std::vector<int64_t> lengths_;  // number of values of each input; -1: not made yet
  int64_t* candidates_ = nullptr;
};

// A model's output, float32 [rows, columns].
struct Output {
  std::string_view name;
  const float* values;
  int64_t rows, columns;

  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(values), static_cast<size_t>(rows * columns) * sizeof(float)};
  }
};

// The model that a request addresses, as far as the request names it; and in an answer, the model that answers.
struct Addressee {
  std::string model, label, signature;
  std::optional<int64_t> version;
};

}  // namespace ctrlab::processor
