// The common part of all kernels' checks: pools, random numbers, buffers of exact size, the verdict, and `Main`. `Main` runs one
// kernel on random and adversarial inputs, under AddressSanitizer, and compares it with its scalar twin:
//
//   check <kernel> <seed>    "passed <seed>" and exit code 0: the kernel is correct. 1: one JSON object on stdout with rule,
//                            case, expected, received, index.
//
// It is linked with the source that defines the kernel: a learner's, or ours in the tests. Each op has a header of checks,
// kernels/<op>/<op>_check.h, which ends with its `entries`, one per kernel. All kernels are weak symbols, because a learner's
// source defines only one. Buffers have their exact size, so that overruns are seen. Outputs are filled with NaN, so that an
// element which the kernel does not write is seen.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "kernels/abi.h"

namespace ctrlab::check {

struct Pool {
  const char* name;
  ParallelFor parallel_for;
};

using Body = void (*)(void*, int64_t, int64_t);

// Three ways to split the work: a kernel that relies on one of them is wrong.
inline const Pool pools[] = {
    {"the work in one piece", kAlone},
    {"the work unit by unit, the last first",
     {nullptr,
      [](void*, int64_t n, int64_t, Body body, void* c) {
        while (n-- > 0) body(c, n, n + 1);
      }}},
    {"the work halved between two threads",
     {nullptr,
      [](void*, int64_t n, int64_t, Body body, void* c) {
        std::thread other(body, c, n / 2, n);
        if (n / 2 > 0) body(c, 0, n / 2);
        other.join();
      }}},
};

inline std::mt19937_64 rng;

// The name of a case. Stderr gets it as well, because a sanitizer that ends the process does not know it.
inline std::string Trying(const std::string& test, const Pool& pool) {
  std::string name = test + ", " + pool.name;
  std::fprintf(stderr, "trying: %s\n", name.c_str());
  return name;
}

inline int64_t Uniform(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high - 1)(rng); }

using Floats = std::vector<float>;

// Exactly `count` floats, so that AddressSanitizer sees the first one past the end.
inline std::unique_ptr<float[]> Exactly(const Floats& values) {
  std::unique_ptr<float[]> copy(new float[values.size()]);
  std::copy(values.begin(), values.end(), copy.get());
  return copy;
}

inline Floats RandomFloats(int64_t count) {
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) value = normal(rng);
  return values;
}

// The initial content of an output, so that an element which is not written is seen.
inline Floats Nans(int64_t count) { return Floats(count, std::numeric_limits<float>::quiet_NaN()); }

inline std::string Quoted(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "\"%.7g\"", value);
  return text;
}

[[noreturn]] inline void Fail(const std::string& rule, const std::string& test, const std::string& expected,
                              const std::string& received, const std::string& index) {
  std::printf("{\"rule\": \"%s\", \"case\": \"%s\", \"expected\": %s, \"received\": %s, \"index\": %s}\n", rule.c_str(),
              test.c_str(), expected.c_str(), received.c_str(), index.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

constexpr float kTolerance = 1e-5f;

// The allowed error, in tolerances, of a sequential float sum of `terms` terms: each addition rounds to 2^-24 of the sum.
inline float OfSum(int64_t terms) { return std::max(1.0f, static_cast<float>(terms) * 0x1p-24f / kTolerance); }

inline void Compare(const std::string& rule, const std::string& test, const Floats& expected, const Floats& magnitude,
                    const float* received, int64_t width) {
  for (int64_t k = 0; k < std::ssize(expected); ++k) {
    if (std::abs(received[k] - expected[k]) <= kTolerance * magnitude[k]) continue;
    std::string index = "[" + std::to_string(width ? k / width : k) + (width ? ", " + std::to_string(k % width) : "") + "]";
    Fail(rule, test, Quoted(expected[k]), Quoted(received[k]), index);
  }
}

inline Floats Absolute(Floats values) {
  for (float& value : values) value = std::abs(value);
  return values;
}

inline const Floats& Untouched(const std::string& test, const Floats& before, const float* now) {
  if (!before.empty() && std::memcmp(before.data(), now, before.size() * sizeof(float)) != 0) {
    Fail("A kernel must leave its inputs as they are.", test, "\"no change\"", "\"a changed input\"", "[]");
  }
  return before;
}

struct Entry {
  std::string kernel;
  bool defined;
  const char* header;
  void (*check)(const std::string& kernel);
};

inline int Main(int argc, char** argv, std::initializer_list<std::span<const Entry>> entries) {
  if (argc != 3) return 2;
  for (const std::span<const Entry> of_op : entries) {
    for (const Entry& entry : of_op) {
      if (entry.kernel != argv[1]) continue;
      if (!entry.defined) {
        Fail(std::string("The source must define the kernel with the signature of ") + entry.header + ".", "linking",
             "\"void ctrlab_" + entry.kernel + "(...)\"", "\"no such function\"", "[]");
      }
      rng.seed(std::strtoull(argv[2], nullptr, 10));
      entry.check(entry.kernel);
      std::printf("passed %s\n", argv[2]);  // a kernel that ends the process early has not passed
      return 0;
    }
  }
  return 2;
}

}  // namespace ctrlab::check
