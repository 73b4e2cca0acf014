// Feeds the parsing kernels with made-up bytes, under sanitizers, and holds what they say against their scalar twins.
//
//   fuzz_parsing <seed> <most inputs> <most seconds>
//
// The last line says how many inputs ran. On a difference, or when a sanitizer speaks, the input is printed and the exit code
// is not 0.
//
// The kernels are compiled with -fsanitize-coverage=trace-pc, this file is not: an input that reaches a branch for the first time
// is kept, and later inputs are made from those that were kept.

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>

#include "kernels/parsing/number.h"
#include "kernels/parsing/parsing.h"
#include "kernels/parsing/parsing_scalar.h"

extern "C" void __sanitizer_set_death_callback(void (*callback)());

namespace {

using namespace ctrlab;

constexpr size_t kPlaces = 1 << 16, kLongest = 400;
uint8_t reached[kPlaces];
size_t reached_count = 0;
std::string current;

void Show() {
  std::fputs("the input:", stdout);
  for (const unsigned char c : current) std::printf(" %02x", c);
  std::fputs("\n", stdout);
  std::fflush(stdout);
}

[[noreturn]] void Differ(const char* what) {
  std::printf("%s differs from its scalar twin\n", what);
  Show();
  std::_Exit(1);
}

// The first bytes of an input choose the column, the others are its rows, a text a line.
struct Case {
  std::string separator;
  int64_t max_length, buckets;
  Encoding encoding;
  std::vector<std::string> rows = {""};

  explicit Case(const std::string& input) {
    auto byte = [&](size_t i) { return i < input.size() ? static_cast<uint8_t>(input[i]) : 0; };
    const char* const separators[] = {";", "|", "\x02", "e", "1", ".", ";;", "ab", "\xff"};
    separator = separators[byte(0) % std::size(separators)];
    max_length = byte(1) % 6;
    encoding = static_cast<Encoding>(byte(1) / 6 % 3);
    buckets = encoding == Encoding::kVocabulary ? 3 : 1 + byte(2) * int64_t{1'000'003};
    for (size_t i = 3; i < input.size(); ++i) {
      if (input[i] == '\n' && rows.size() < 4) {
        rows.emplace_back();
      } else {
        rows.back() += input[i];
      }
    }
  }
};

bool SameBits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

void RunIds(const Case& test, const std::vector<StringView>& texts) {
  static const std::string words[] = {"tea", "", "night"};
  static const StringView views[] = {{words[0].data(), 3}, {words[1].data(), 0}, {words[2].data(), 5}};
  const int64_t rows = std::ssize(texts);
  for (const bool list : {true, false}) {
    const StringView separator = {test.separator.data(), list ? std::ssize(test.separator) : 0};
    const IdSource source = {texts.data(),  nullptr,      nullptr, separator, list ? test.max_length : 0,
                             test.encoding, test.buckets, views};
    const IdInput input = {&source, 1, rows};
    std::vector<int64_t> expected, ends = {0};
    Fault fault = {-1, -1}, found;
    for (int64_t b = 0; b < rows; ++b) {
      if (!scalar::RowOfIds(source, b, &expected) && fault.row < 0) fault = {0, b};
      ends.push_back(std::ssize(expected));
    }
    std::vector<int64_t> splits(rows + 1);
    int64_t* const split_list[] = {list ? splits.data() : nullptr};
    ctrlab_id_splits(&input, split_list, &kAlone);
    if (list && splits != ends) Differ("id_splits");
    const std::unique_ptr<int64_t[]> ids(new int64_t[expected.size()]);
    int64_t* const id_list[] = {ids.get()};
    ctrlab_parse_ids(&input, split_list, id_list, &found, &kAlone);
    if (found.row != fault.row) Differ("the fault of parse_ids");
    if (fault.row < 0 && !std::equal(expected.begin(), expected.end(), ids.get())) Differ("parse_ids");
  }
}

void RunNumbers(const Case& test, const std::vector<StringView>& texts) {
  const int64_t rows = std::ssize(texts);
  const NumberSource source = {texts.data(),     nullptr, nullptr, {test.separator.data(), std::ssize(test.separator)},
                               Transform::kNone, 0,       1};
  const NumberInput input = {&source, 1, rows};
  const std::unique_ptr<float[]> out(new float[rows]);
  Fault fault = {-1, -1}, found;
  ctrlab_parse_numbers(&input, out.get(), &found, &kAlone);
  for (int64_t b = 0; b < rows; ++b) {
    float expected;
    if (!scalar::RowOfNumbers(source, b, &expected)) {
      if (fault.row < 0) fault = {0, b};
    } else if (!SameBits(out[b], expected) && !(std::isnan(out[b]) && std::isnan(expected))) {
      Differ("parse_numbers");
    }
    // Each number by itself, with the sign of zero, numbers of few digits and the kind of NaN.
    for (const std::string& part : scalar::Parts(scalar::Text(texts[b]), test.separator)) {
      float one = 0, other = 0;
      // In a buffer of exactly its size, as ParseFloat was not told that more may be read.
      const std::unique_ptr<char[]> alone(new char[part.size()]);
      std::copy(part.begin(), part.end(), alone.get());
      if (ParseFloat(alone.get(), std::ssize(part), &one) != scalar::Number(part, &other))
        Differ("whether ParseFloat takes a part");
      if (scalar::Number(part, &other) && !SameBits(one, other)) Differ("ParseFloat");
    }
  }
  if (found.row != fault.row) Differ("the fault of parse_numbers");
}

void Run(const std::string& input) {
  const Case test(input);
  // Each text in a buffer of exactly its size, so that AddressSanitizer sees the first byte past the end.
  std::vector<std::unique_ptr<char[]>> buffers;
  std::vector<StringView> texts;
  for (const std::string& row : test.rows) {
    buffers.emplace_back(new char[row.size()]);
    std::copy(row.begin(), row.end(), buffers.back().get());
    texts.push_back({buffers.back().get(), static_cast<int64_t>(row.size())});
  }
  RunIds(test, texts);
  RunNumbers(test, texts);
}

const char* const kPieces[] = {";", ";;", "|", "\x02", "e", "\n", " ", "\t", ".", "-", "+", "0", "1", "9", "0x", "p", "p-14",
                               "inf", "infinity", "nan", "nan(1)", "1e39", "e-4", "e+38", "16777217", "0.1", "tea", "night",
                               "\xff", "9007199254", "e9999", "ab", "0000000000",
                               // These stand nearer to the middle between two floats than a double can tell.
                               "0.8755911290645599", "0.8975231945514679", "0.8572079837322235"};

std::mt19937_64 rng;
size_t Below(size_t n) { return rng() % n; }

std::string Mutant(const std::vector<std::string>& corpus) {
  std::string text = corpus[Below(corpus.size())];
  for (size_t times = 1 + Below(4); times > 0; --times) {
    const size_t at = Below(text.size() + 1), rest = text.size() - at;
    switch (Below(6)) {
      case 0:
        text.insert(at, kPieces[Below(std::size(kPieces))]);
        break;
      case 1:
        text.insert(at, 1, static_cast<char>(Below(256)));
        break;
      case 2:
        text.erase(at, 1 + Below(4));
        break;
      case 3:
        if (rest > 0) text[at] = static_cast<char>(text[at] ^ (1 << Below(8)));
        break;
      case 4:
        text.insert(Below(text.size() + 1), text.substr(at, 1 + Below(20)));
        break;
      case 5: {
        const std::string& other = corpus[Below(corpus.size())];
        text = text.substr(0, at) + other.substr(Below(other.size() + 1));
      }
    }
  }
  if (text.size() > kLongest) text.resize(kLongest);
  return text;
}

}  // namespace

// Called by the compiler at every branch of the kernels.
extern "C" void __sanitizer_cov_trace_pc() {
  static uintptr_t before = 0;
  const uintptr_t here = reinterpret_cast<uintptr_t>(__builtin_return_address(0)) * 0x9e3779b97f4a7c15 >> 48;
  uint8_t& place = reached[(here ^ before) % kPlaces];
  reached_count += place == 0;
  place = 1;
  before = here / 2;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  rng.seed(std::strtoull(argv[1], nullptr, 10));
  const uint64_t most = std::strtoull(argv[2], nullptr, 10);
  const auto stop = std::chrono::steady_clock::now() + std::chrono::seconds(std::strtoll(argv[3], nullptr, 10));
  __sanitizer_set_death_callback(Show);
  std::vector<std::string> corpus = {"", std::string(3, '\0') + "1;2.5;-3e4\n0x1p3; inf",
                                     std::string(3, '\x0e') + "tea;night\nsoup"};
  uint64_t runs = 0;
  for (; runs < most; ++runs) {
    if (runs % 1024 == 0 && std::chrono::steady_clock::now() > stop) break;
    current = Mutant(corpus);
    const size_t before = reached_count;
    Run(current);
    if (reached_count > before) corpus.push_back(current);
  }
  std::printf("%llu inputs, %zu kept, %zu steps from branch to branch\n", static_cast<unsigned long long>(runs), corpus.size(),
              reached_count);
  return 0;
}
