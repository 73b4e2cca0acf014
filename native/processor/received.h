// What a request has brought so far: the one place where every protocol's values are judged.

#pragma once

#include "processor/inputs.h"
#include "words.h"

namespace ctrlab::processor {

// Makes each input once, in the shape that the model takes. At the end it fills what was left out, and refuses what is missing,
// numbers that are not finite, and, if candidates share users, numbers of rows that do not fit together. (Otherwise the graph
// reports these.)
class Received {
 public:
  // `bytes` is the size of the request: what was left out must not take far more memory.
  Received(const Signature& signature, Arrays* arrays, size_t bytes)
      : signature_(signature), arrays_(arrays), may_fill_(std::max<int64_t>(bytes, kMostRepeated)), made_(signature.size()) {}

  // `given` is the shape that the request says.
  Answer Make(int32_t i, std::span<const int64_t> given, void** data) {
    const Signature::Input& input = signature_[i];
    if (made_[i].rows >= 0) return Invalid("A request has each input once; it has ", input.name, " twice: leave one out.");
    const Shape shape = signature_.Fit(i, given);
    const int64_t count = CountOf(shape);
    if (shape.empty() || count < 0) {
      return Invalid("Input ", input.name, " is an array of ", input.Dimensions(), ", of shape ", Words(input.shape()),
                     "; received the shape ", ShownShape(given), ".");
    }
    if (count == 0 && shape[0] > 0) {
      return Invalid("A row of input ", input.name, " has a value; received the shape ", ShownShape(given), ".");
    }
    if (Answer bad = RequireRoom(input, shape[0], count); !bad.ok()) return bad;
    if (!arrays_->Make(i, shape, data)) {
      return Refusal(Code::kUnavailable, "There is no memory for ", count, " values of ", input.name, ": send fewer rows.");
    }
    made_[i] = {shape[0], count, *data};
    return {};
  }
  Answer Make(int32_t i, int64_t rows, void** data) { return Make(i, {&rows, 1}, data); }

  // Whether so many more values may be filled.
  Answer Fill(int64_t count) {
    may_fill_ -= count;
    if (may_fill_ >= 0) return {};
    return Invalid("A request leaves out at most as many values as it has bytes; this one leaves out more: send fewer rows.");
  }

  // Value k of input i, which is of text.
  void SetText(int32_t i, int64_t k, std::string_view text) {
    Digits made;
    arrays_->SetText(i, k, signature_[i].words ? WordOf(text, made) : text);
  }

  // A number as value k of input i, whose texts are words. False if it has none.
  template <class T>
  bool SetWord(int32_t i, int64_t k, T number) {
    Digits made;
    if constexpr (std::is_same_v<T, bool>) {
      return false;
    } else if constexpr (kIsFloat<T>) {
      int64_t whole;
      if (!WholeOf(static_cast<double>(number), &whole)) return false;
      arrays_->SetText(i, k, WordOf(whole, made));
    } else {
      arrays_->SetText(i, k, WordOf(number, made));
    }
    return true;
  }

  // The n numbers of a tensor as the values of input i, whose texts are words.
  template <class T>
  Answer SetWords(int32_t i, const T* numbers, int64_t n) {
    for (int64_t k = 0; k < n; ++k) {
      if (SetWord(i, k, numbers[k])) continue;
      return Invalid("Value ", k, " of ", signature_[i].name,
                     ", counted from 0, must be text, or a whole number of 64 bits; received ",
                     std::to_string(static_cast<double>(numbers[k])), ": send it as text.");
    }
    return {};
  }

  // Value k of input i, which is a column that may be missing.
  void FillMissing(int32_t i, int64_t k, const Signature::Default& by) {
    const Type type = signature_[i].type;
    if (type == Type::kText) return arrays_->SetText(i, k, "");
    WithNumber(type, [&]<class T>(T) {
      static_cast<T*>(made_[i].data)[k] = kIsFloat<T> ? static_cast<T>(by.number) : static_cast<T>(by.whole);
    });
  }

  // Call it when all arrays are filled.
  Answer Finish() {
    std::vector<const Signature::Column*> left_out;
    for (const Signature::Column& column : signature_.columns()) {
      const bool values = made_[column.values].rows >= 0, splits = column.splits < 0 || made_[column.splits].rows >= 0;
      if (values && splits) continue;
      const bool neither = !values && (column.splits < 0 || !splits);
      if (!neither || !column.missing) {
        const Signature::Input& input = signature_[values ? column.splits : column.values];
        return Invalid("A request has every input of the model; ", input.name, ", of type ", NameOf(input.type),
                       ", is missing, and has no default.");
      }
      left_out.push_back(&column);
    }
    if (!left_out.empty()) {
      if (Answer bad = FillColumns(left_out); !bad.ok()) return bad;
    }
    if (signature_.counts() >= 0) {
      if (Answer bad = FinishShared(); !bad.ok()) return bad;
    }
    return RequireNumbers();
  }

  // A name that is none of the model's: it is ignored, or refused.
  Answer Unknown(std::string_view name) const {
    if (arrays_->Ignore(name)) return {};
    return Invalid("A request has the inputs of the model and no others; ", Shown(name),
                   " is none of them: leave it out, or let the server ignore unknown columns.");
  }

 private:
  // Whether the model has memory for an array of so many rows and values, beside those that are made.
  Answer RequireRoom(const Signature::Input& input, int64_t rows, int64_t count) {
    const Limit& most = arrays_->limit;
    values_ += count;
    rows = input.name.ends_with("/values") ? 0 : rows - input.name.ends_with("/row_splits");
    if (rows <= most.rows && values_ <= most.values) return {};
    const bool many = rows > most.rows;
    return Invalid("A request has at most ", many ? most.rows : most.values, many ? " rows" : " values",
                   ", by the memory that this model takes for each; received ", many ? rows : values_, " with ", input.name,
                   ": split it, or configure most_model_bytes.");
  }

  struct Made {
    int64_t rows = -1, count = 0;  // of rows, and of values; -1: not made yet
    void* data = nullptr;
  };

  // Fills whole columns, with as many rows as the others of their kind (per user, or per candidate) have.
  Answer FillColumns(const std::vector<const Signature::Column*>& columns) {
    int64_t rows[2] = {-1, -1};
    for (const Signature::Column& column : signature_.columns()) {
      if (made_[column.values].rows < 0 || rows[column.per_user] >= 0) continue;
      rows[column.per_user] = RowsOf(column);
      if (rows[column.per_user] < 0) return Invalid("Row splits begin with 0; those of ", column.name, " are empty.");
    }
    const Made* const counts = signature_.counts() < 0 ? nullptr : &made_[signature_.counts()];
    if (counts && counts->rows >= 0 && rows[1] < 0) rows[1] = counts->rows;
    if (counts && counts->rows >= 0 && rows[0] < 0) {
      const auto* const each = static_cast<const int64_t*>(counts->data);
      rows[0] = 0;
      for (int64_t user = 0; user < counts->rows; ++user) rows[0] += std::clamp<int64_t>(each[user], 0, kMostRepeated);
    }
    for (const bool of_users : {false, true}) {
      if (rows[of_users] < 0) rows[of_users] = rows[!of_users];
    }
    for (const Signature::Column* column : columns) {
      const int64_t n = rows[column->per_user];
      if (n < 0) return Invalid("A request has a column at least, which says its number of rows; this one has none.");
      if (Answer bad = Fill(n); !bad.ok()) return bad;
      void* data;
      if (Answer bad = Make(column->values, column->splits < 0 ? n : 0, &data); !bad.ok()) return bad;
      if (column->splits < 0) {
        for (int64_t k = 0; k < n; ++k) FillMissing(column->values, k, *column->missing);
        continue;
      }
      if (Answer bad = Make(column->splits, n + 1, &data); !bad.ok()) return bad;
      std::fill_n(static_cast<int64_t*>(data), n + 1, 0);
    }
    return {};
  }

  Answer RequireNumbers() const {
    for (int32_t i = 0; i < signature_.size(); ++i) {
      const Signature::Input& input = signature_[i];
      const Made& made = made_[i];
      if (made.count == 0 || !(IsFloat(input.type) || input.type == Type::kBool)) continue;
      const int64_t bad = WithNumber(input.type, [&]<class T>(T) {
        if constexpr (std::is_same_v<T, bool>) return FirstBad(static_cast<const uint8_t*>(made.data), made.count);
        return FirstBad(static_cast<const T*>(made.data), made.count);
      });
      if (bad < 0) continue;
      const std::string place = input.name + ", row " + std::to_string(bad / std::max<int64_t>(made.count / made.rows, 1));
      if (input.type == Type::kBool)
        return Invalid("A value of ", place, ", must be 1 or 0, true or false; received another byte.");
      return Invalid(
          "A value of ", place, ", must be a finite number; received NaN or infinity: ",
          signature_.MissingIn(i) ? "leave a missing value out in JSON, or send the column's default." : "send a number.");
    }
    return {};
  }

  // The place of the first value that is not finite, or is a truth value other than 0 and 1; -1 if there is none.
  template <class T>
  static int64_t FirstBad(const T* values, int64_t count) {
    for (int64_t k = 0; k < count; ++k) {
      if (kIsFloat<T> ? !IsFinite(values[k]) : values[k] > T(1)) return k;
    }
    return -1;
  }

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
    if (made_[counts].rows < 0) {
      if (rows != users) {
        return Invalid("A request without ", Signature::kCounts, " has one candidate per user; received ", users, " rows of ",
                       firsts[1]->name, " and ", rows, " of ", firsts[0]->name, ": say how many candidates each user has.");
      }
      void* data;
      if (Answer bad = Make(counts, users, &data); !bad.ok()) return bad;
      std::fill_n(static_cast<int64_t*>(data), users, 1);
    }
    if (made_[counts].rows != users) {
      return Invalid(Signature::kCounts, " has a number for each user; received ", made_[counts].rows, " numbers and ", users,
                     " rows of ", firsts[1]->name, ".");
    }
    int64_t left = rows;  // a sum could overflow
    bool fits = true;
    for (int64_t user = 0; user < users; ++user) {
      const int64_t count = static_cast<const int64_t*>(made_[counts].data)[user];
      if (count < 0) return Invalid("A user has 0 candidates or more; received ", count, " for user ", user, ".");
      fits = fits && count <= left;
      left -= fits ? count : 0;
    }
    if (fits && left == 0) return {};
    return Invalid("The numbers in ", Signature::kCounts, " add up to the rows of candidates; they are ", fits ? "fewer" : "more",
                   " than the ", rows, " rows of ", firsts[0]->name, ".");
  }

  int64_t RowsOf(const Signature::Column& column) const {
    return column.splits < 0 ? made_[column.values].rows : made_[column.splits].rows - 1;
  }

  const Signature& signature_;
  Arrays* const arrays_;
  int64_t may_fill_, values_ = 0;  // that may still be filled; that are made
  std::vector<Made> made_;
};

}  // namespace ctrlab::processor
