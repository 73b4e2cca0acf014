// A fuzzer's loop: a text that reaches a new branch is kept, and later texts are mutations of the kept ones.
//
//   <program> <seed> <most inputs> <most seconds>
//
// The last line reports the number of inputs. On a difference or a sanitizer report, the input is printed and the exit code is
// not 0. What is watched is compiled with -fsanitize-coverage=trace-pc; the file that includes this one is not.

#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

extern "C" void __sanitizer_set_death_callback(void (*callback)());

namespace ctrlab::fuzz {

constexpr size_t kPlaces = 1 << 16;
inline uint8_t reached[kPlaces];
inline size_t reached_count = 0;
inline std::string current;
inline std::mt19937_64 rng;

inline size_t Below(size_t n) { return rng() % n; }

inline void Show() {
  std::fputs("the input:", stdout);
  for (const unsigned char c : current) std::printf(" %02x", c);
  std::fputs("\n", stdout);
  std::fflush(stdout);
}

// An input of the corpus, changed in some places.
inline std::string Mutant(const std::vector<std::string>& corpus, const std::vector<std::string>& pieces, size_t longest) {
  std::string text = corpus[Below(corpus.size())];
  for (size_t times = 1 + Below(4); times > 0; --times) {
    const size_t at = Below(text.size() + 1), rest = text.size() - at;
    switch (Below(6)) {
      case 0:
        text.insert(at, pieces[Below(pieces.size())]);
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
  if (text.size() > longest) text.resize(longest);
  return text;
}

// Runs `run` on a head and a mutant of a corpus, into which `pieces` are put. The corpora take turns, and `head` draws the bytes that
// say how the mutant is taken, so what is kept sways neither. Returns the program's exit code.
inline int Main(int argc, char** argv, std::vector<std::vector<std::string>> corpora, const std::vector<std::string>& pieces,
                size_t longest, std::string (*head)(size_t corpus), void (*run)(const std::string&)) {
  if (argc != 4) return 2;
  rng.seed(std::strtoull(argv[1], nullptr, 10));
  const uint64_t most = std::strtoull(argv[2], nullptr, 10);
  const auto stop = std::chrono::steady_clock::now() + std::chrono::seconds(std::strtoll(argv[3], nullptr, 10));
  __sanitizer_set_death_callback(Show);
  uint64_t runs = 0, kept = 0;
  for (; runs < most; ++runs) {
    if (runs % 1024 == 0 && std::chrono::steady_clock::now() > stop) break;
    const size_t turn = runs % corpora.size();
    const std::string mutant = Mutant(corpora[turn], pieces, longest);
    current = head(turn) + mutant;
    const size_t before = reached_count;
    run(current);
    if (reached_count == before) continue;
    corpora[turn].push_back(mutant);
    ++kept;
  }
  std::printf("%llu inputs, %llu kept, %zu steps from branch to branch\n", static_cast<unsigned long long>(runs),
              static_cast<unsigned long long>(kept), reached_count);
  return 0;
}

}  // namespace ctrlab::fuzz

// Called by the compiler at every branch of what is watched.
extern "C" inline __attribute__((used)) void __sanitizer_cov_trace_pc() {
  using namespace ctrlab::fuzz;
  static uintptr_t before = 0;
  const uintptr_t here = reinterpret_cast<uintptr_t>(__builtin_return_address(0)) * 0x9e3779b97f4a7c15 >> 48;
  uint8_t& place = reached[(here ^ before) % kPlaces];
  reached_count += place == 0;
  place = 1;
  before = here / 2;
}
