// The parsing kernels on random and adversarial columns, against their scalar twins.

#pragma once

#include "check/harness.h"
#include "kernels/parsing/parsing.h"
#include "kernels/parsing/parsing_scalar.h"

#pragma weak ctrlab_id_splits
#pragma weak ctrlab_parse_ids
#pragma weak ctrlab_parse_numbers

namespace ctrlab::check::parsing {

using Texts = std::vector<std::string>;

// Texts as kernels take them, each in a buffer of exactly its size.
struct Views {
  std::vector<std::unique_ptr<char[]>> buffers;
  std::unique_ptr<StringView[]> views;

  Views() = default;
  explicit Views(const Texts& texts) : views(new StringView[texts.size()]) {
    for (size_t i = 0; i < texts.size(); ++i) {
      buffers.emplace_back(new char[texts[i].size()]);
      std::copy(texts[i].begin(), texts[i].end(), buffers.back().get());
      views[i] = {buffers.back().get(), std::ssize(texts[i])};
    }
  }
};

template <class T>
std::unique_ptr<T[]> Copy(const std::vector<T>& values) {
  std::unique_ptr<T[]> copy(new T[values.size()]);
  std::copy(values.begin(), values.end(), copy.get());
  return copy;
}

// A column whose buffers it owns: cells of text, or with `lengths` values of a list.
struct Column {
  std::string name;
  Texts texts;
  std::vector<int64_t> lengths;
  std::string separator;
  Encoding encoding = Encoding::kHash;
  int64_t buckets = 1000, max_length = 0;
  Texts words = {};
  std::vector<int64_t> integers = {};  // given instead of texts
  bool ragged = false;
};

inline std::string Word(const std::string& alphabet, int64_t most) {
  std::string word;
  for (int64_t n = Uniform(0, most); n > 0; --n) word += alphabet[Uniform(0, std::ssize(alphabet))];
  return word;
}

inline Texts Words(int64_t count, const std::string& alphabet, int64_t most) {
  Texts words;
  while (std::ssize(words) < count) words.push_back(Word(alphabet, most));
  return words;
}

inline std::vector<Column> IdColumns() {
  std::vector<Column> columns = {
      {"one word a row", Words(9, "abcdef", 12), {}, ""},
      {"long words", Words(9, "abcdef", 300), {}, ""},
      {"lists in text", Words(9, "ab;c;", 60), {}, ";"},
      {"lists of long words", Words(9, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz;", 900), {}, ";"},
      {"a separator of two bytes", Words(9, "ab:", 40), {}, "::"},
      {"a separator that is no letter",
       {"a\x02"
        "b",
        "\x02",
        "\x02\x02"
        "c"},
       {},
       "\x02"},
      {"bytes past 127", {"\xc3\xa9\xff\xc3", "\xff\xff", "a\xff"}, {}, "\xff"},
      {"texts without any part", {"", ";", ";;;;;;;;;", ";;;;;;;;;;;;;;;;;"}, {}, ";"},
      {"separators at both ends", {";a;", ";;a;;b;;", "a;"}, {}, ";"},
      {"only the last of a list", Words(9, "ab;c;", 60), {}, ";", Encoding::kHash, 7, Uniform(1, 5)},
      {"the last one", {"a;b;c", "a", "", "a;;b;"}, {}, ";", Encoding::kHash, 1000, 1},
      {"one bucket", Words(5, "abc;", 9), {}, ";", Encoding::kHash, 1},
      {"as many buckets as there can be", Words(5, "abc;", 9), {}, ";", Encoding::kHash, INT64_MAX},
      {"lists of values", Words(9, "ab;", 20), {2, 0, 3, 4}, "", Encoding::kHash, 1000, 0, {}, {}, true},
      {"the last of lists of values", Words(9, "ab;", 20), {2, 0, 3, 4}, "", Encoding::kHash, 1000, 2, {}, {}, true},
      {"no values in any list", {}, {0, 0, 0}, "", Encoding::kHash, 1000, 2, {}, {}, true},
      {"words of a vocabulary",
       {"tea", "night", "", "teas", "te", "tea"},
       {},
       "",
       Encoding::kVocabulary,
       4,
       0,
       {"tea", "night", "", "tea"}},
      {"lists of a vocabulary",
       {"tea;night", "dinner;tea", "", "lunch;tea;tea"},
       {},
       ";",
       Encoding::kVocabulary,
       2,
       2,
       {"tea", "night"}},
      {"numbers of 16 to 65 digits", {}, {}, ""},
      {"integers", {}, {}, "", Encoding::kIdentity, 10, 0, {}, {0, 9, 5}},
      {"lists of integers", {}, {1, 0, 2}, "", Encoding::kIdentity, 10, 1, {}, {0, 9, 5}, true},
      {"integers out of range", {}, {}, "", Encoding::kIdentity, 10, 0, {}, {0, 9, 10, -1}},
      {"indices of words", {}, {2, 1, 0}, "", Encoding::kVocabulary, 2, 1, {"a", "b"}, {-1, 1, 0}, true},
      {"an index too many", {}, {}, "", Encoding::kVocabulary, 2, 0, {"a", "b"}, {-1, 1, 2, -2}},
      {"integers in text", {"0", " 7 ", "+9", "-0", "\t3\n"}, {}, "", Encoding::kIdentity, 10},
      {"text that is no integer", {"1", "x", "2"}, {}, "", Encoding::kIdentity, 10},
      {"integers past 64 bits", {"1", "2", "99999999999999999999", "-99999999999999999999"}, {}, "", Encoding::kIdentity, 10},
      {"an empty cell for an integer", {"1", "", " "}, {}, "", Encoding::kIdentity, 10},
      {"lists of integers in text", {"1;2", "", "3;;9", "4;a;5"}, {}, ";", Encoding::kIdentity, 10},
      {"a wrong integer that is left out", {"x;2", "99;1"}, {}, ";", Encoding::kIdentity, 10, 1},
      {"a batch of no rows", {}, {}, ";"},
      {"many rows", Words(700, "abcdefg;", 120), {}, ";", Encoding::kHash, 100'000, 5},
  };
  for (int64_t n = 0; n < 140; ++n) columns[18].texts.push_back(std::string(n, static_cast<char>('a' + n % 26)));
  columns[18].name = "every length of word up to 139";
  return columns;
}

inline std::vector<Column> NumberColumns() {
  return {
      {"whole numbers", {"1;2;3", "10", "007", "-5;+5"}, {}, ";"},
      {"decimals", {"0.1;.5;5.", "3.14159;2.71828", "-0.25", "0.3000000000000000166"}, {}, ";"},
      {"a number between two floats", {"16777217", "16777217.0000000001", "16777216.9999999999", "33554434.0000001"}, {}, ";"},
      {"exponents", {"1e3;1E-3", "1e+2", "123456789012345678901234567890", "1e39;-1e39", "1e-46", "1e-40"}, {}, ";"},
      {"hexadecimals", {"0x10;0X1f", "-0x1.8p3", "0x1p200", "0x1p-200"}, {}, ";"},
      {"neither finite nor a number", {"inf", "-Infinity", "nan", "1;NAN", "nan(12)", "inf;-inf"}, {}, ";"},
      {"white space", {" 1; 2 ", "\t3\n;4"}, {}, ";"},
      {"texts without any part", {"", ";", ";;;"}, {}, ";"},
      {"parts that are empty", {";1;;2;", "3;"}, {}, ";"},
      {"zeros", {"-0", "0;-0", "-0;-0", "0.000", "0e9"}, {}, ";"},
      {"no number at the end", {"1", "2;x", "3"}, {}, ";"},
      {"no number in the first row", {"1e", "2"}, {}, ";"},
      {"two rows that are no numbers", {"1", "0x", "2", "--1"}, {}, ";"},
      {"signs and spaces in the wrong place", {"1", "- 1"}, {}, ";"},
      {"a separator of two bytes", {"1::2", "::3::", ""}, {}, "::"},
      {"a separator that a number could hold", {"1e5e2", "e", "7"}, {}, "e"},
      {"numbers of 17 to 20 digits",
       {"12345678901234567;1234567890123456789", "9999999999999999999;.1234567890123456789"},
       {},
       ";"},
      {"a batch of no rows", {}, {}, ";"},
      {"one number a row", {}, {}, "", {}, 0, 0, {}, {3, -7, 0}},
      {"lists of numbers", {}, {2, 0, 1, 3}, "", {}, 0, 0, {}, {3, -7, 0, 1, 2, 4}, true},
      {"many rows", Words(700, "0123456789;", 60), {}, ";"},
  };
}

// A column as the kernels of ids take it.
struct IdBuffers {
  Views texts, words;
  std::unique_ptr<int64_t[]> integers, splits;
  IdSource source;
  int64_t rows;

  explicit IdBuffers(const Column& column) : texts(column.texts), words(column.words), integers(Copy(column.integers)) {
    const int64_t values = column.integers.empty() ? std::ssize(column.texts) : std::ssize(column.integers);
    std::vector<int64_t> ends = {0};
    for (const int64_t length : column.lengths) ends.push_back(ends.back() + length);
    splits = Copy(ends);
    rows = column.ragged ? std::ssize(column.lengths) : values;
    source = {column.integers.empty() ? texts.views.get() : nullptr,
              column.integers.empty() ? nullptr : integers.get(),
              column.ragged ? splits.get() : nullptr,
              {column.separator.data(), std::ssize(column.separator)},
              column.max_length,
              column.encoding,
              column.buckets,
              words.views.get()};
  }

  bool is_list() const { return source.splits || source.separator.size > 0; }
};

inline void Equal(const std::string& rule, const std::string& test, const std::vector<int64_t>& expected,
                  const int64_t* received) {
  for (int64_t i = 0; i < std::ssize(expected); ++i) {
    if (received[i] == expected[i]) continue;
    Fail(rule, test, "\"" + std::to_string(expected[i]) + "\"", "\"" + std::to_string(received[i]) + "\"",
         "[" + std::to_string(i) + "]");
  }
}

inline void SameFault(const std::string& test, const Fault& expected, const Fault& received) {
  auto words = [](const Fault& f) {
    return f.column < 0 ? std::string("\"none\"")
                        : "\"column " + std::to_string(f.column) + ", row " + std::to_string(f.row) + "\"";
  };
  if (expected.column != received.column || expected.row != received.row) {
    Fail("The fault must be the first bad cell, column by column, or -1, -1 where all are good.", test, words(expected),
         words(received), "[]");
  }
}

// Each case has two columns: a column of words, then the tested one. So a write outside the tested column is seen.
inline void CheckIds(const std::string& kernel) {
  for (const Column& column : IdColumns()) {
    const IdBuffers own(column);
    Column first{"", Words(own.rows, "xyz", 5), {}, ""};
    const IdBuffers before(first);
    const IdSource sources[] = {before.source, own.source};
    const IdInput input = {sources, 2, own.rows};
    std::vector<std::vector<int64_t>> expected(2), ends(2, {0});
    Fault fault = {-1, -1};
    for (int64_t c = 0; c < 2; ++c) {
      for (int64_t b = 0; b < own.rows; ++b) {
        if (!scalar::RowOfIds(sources[c], b, &expected[c]) && fault.column < 0) fault = {c, b};
        ends[c].push_back(std::ssize(expected[c]));
      }
    }
    for (const Pool& pool : pools) {
      const std::string name = Trying(column.name, pool);
      const auto splits = Copy(std::vector<int64_t>(own.rows + 1, -7));
      int64_t* const all_splits[] = {nullptr, own.is_list() ? splits.get() : nullptr};
      if (kernel == "id_splits") {
        ctrlab_id_splits(&input, all_splits, &pool.parallel_for);
        if (own.is_list()) Equal("splits[b] must be the number of ids before row b.", name, ends[1], splits.get());
        continue;
      }
      std::copy(ends[1].begin(), ends[1].end(), splits.get());
      const auto ids_before = Copy(std::vector<int64_t>(expected[0].size(), -7)),
                 ids = Copy(std::vector<int64_t>(expected[1].size(), -7));
      int64_t* const all_ids[] = {ids_before.get(), ids.get()};
      Fault found = {-7, -7};
      ctrlab_parse_ids(&input, all_splits, all_ids, &found, &pool.parallel_for);
      SameFault(name, fault, found);
      if (fault.column >= 0) continue;  // nobody reads the ids of a rejected batch
      Equal("ids must be the words' own, in the order of the rows.", name + ", the column before", expected[0], ids_before.get());
      Equal("ids must be those of the values that are kept, in the order of the rows.", name, expected[1], ids.get());
    }
  }
}

inline void CheckNumbers(const std::string&) {
  for (const Column& column : NumberColumns()) {
    const IdBuffers own(column);
    const Floats values(column.integers.begin(), column.integers.end());
    const auto numbers = Exactly(values);
    for (const Transform transform : {Transform::kNone, Transform::kLog1p, Transform::kMinMax}) {
      const NumberSource source = {own.source.texts, numbers.get(), own.source.splits, own.source.separator, transform, -0.5f, 3};
      const NumberSource sources[] = {source, source};
      const NumberInput input = {sources, 2, own.rows};
      Floats expected(2 * own.rows);
      Fault fault = {-1, -1};
      for (int64_t b = 0; b < own.rows; ++b) {
        if (!scalar::RowOfNumbers(source, b, &expected[2 * b]) && fault.column < 0) fault = {0, b};
        expected[2 * b + 1] = expected[2 * b];
      }
      for (const Pool& pool : pools) {
        const std::string name = Trying(column.name, pool);
        const auto out = Exactly(Floats(expected.size(), 1e30f));  // not NaN, which is a valid result here
        Fault found = {-7, -7};
        ctrlab_parse_numbers(&input, out.get(), &found, &pool.parallel_for);
        SameFault(name, fault, found);
        if (fault.column >= 0) continue;
        for (int64_t k = 0; k < std::ssize(expected); ++k) {
          const bool same = std::isnan(expected[k]) ? std::isnan(out[k])
                            : std::isinf(expected[k]) || transform != Transform::kLog1p
                                ? out[k] == expected[k]
                                : std::abs(out[k] - expected[k]) <= 1e-6f * std::abs(expected[k]);
          if (same) continue;
          Fail("out[b, c] must be the number, or the mean of the parts that are not empty, transformed.", name,
               Quoted(expected[k]), Quoted(out[k]), "[" + std::to_string(k / 2) + ", " + std::to_string(k % 2) + "]");
        }
      }
    }
  }
}

inline const Entry entries[] = {
    {"id_splits", &ctrlab_id_splits != nullptr, "kernels/parsing/parsing.h", CheckIds},
    {"parse_ids", &ctrlab_parse_ids != nullptr, "kernels/parsing/parsing.h", CheckIds},
    {"parse_numbers", &ctrlab_parse_numbers != nullptr, "kernels/parsing/parsing.h", CheckNumbers},
};

}  // namespace ctrlab::check::parsing
