// Runs one kernel on inputs that are random and adversarial, under AddressSanitizer, against its scalar twin.
//
//   check <kernel> <seed>    "passed <seed>" and exit code 0: the kernel is right. 1: one JSON object on stdout says rule, case,
//                            expected, received, index.
//
// Linked with the source that defines the kernel: a learner's, or ours in the tests. Buffers have exactly their size, so one step too far is seen; outputs come
// full of NaN, so a value that was never written is seen.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "indicator.h"
#include "indicator_scalar.h"

#pragma weak ctrlab_indicator
#pragma weak ctrlab_indicator_gradient
#pragma weak ctrlab_indicator_weights_gradient

namespace {

using namespace ctrlab;

struct Pool {
  const char* name;
  ParallelFor parallel_for;
};

using Body = void (*)(void*, int64_t, int64_t);

// The same work cut in three ways: a kernel that leans on one of them is wrong.
const Pool pools[] = {
    {"the work in one piece", {nullptr, [](void*, int64_t n, int64_t, Body body, void* c) { body(c, 0, n); }}},
    {"the work unit by unit, the last first",
     {nullptr, [](void*, int64_t n, int64_t, Body body, void* c) { while (n-- > 0) body(c, n, n + 1); }}},
    {"the work halved between two threads",
     {nullptr,
      [](void*, int64_t n, int64_t, Body body, void* c) {
        std::thread other(body, c, n / 2, n);
        if (n / 2 > 0) body(c, 0, n / 2);
        other.join();
      }}},
};

// A column whose buffers the case owns.
struct Column {
  int64_t size;
  std::vector<std::vector<int64_t>> bags;  // a row's ids
  bool ragged = true, weighted = false;
};

struct Case {
  std::string name;
  int64_t outputs;
  std::vector<Column> columns;
};

std::mt19937_64 rng;

int64_t Uniform(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high - 1)(rng); }

Column RandomColumn(int64_t rows, int64_t size, bool ragged, bool weighted) {
  Column column{size, {}, ragged, weighted};
  for (int64_t b = 0; b < rows; ++b) {
    std::vector<int64_t> bag(ragged ? Uniform(0, 7) : 1);
    for (int64_t& id : bag) id = Uniform(-1, size);
    column.bags.push_back(bag);
  }
  return column;
}

std::vector<Case> Cases() {
  const int64_t n = Uniform(5, 40), i = Uniform(1, n);
  std::vector<Case> cases = {
      {"one id a row", 4, {RandomColumn(9, n, false, false)}},
      {"bags of ids", 4, {RandomColumn(9, n, true, false)}},
      {"one output", 1, {RandomColumn(9, n, true, false)}},
      {"64 outputs", 64, {RandomColumn(33, n, true, false)}},
      {"a number of outputs that no vector divides", 67, {RandomColumn(9, n, true, false)}},
      {"several columns", 5, {RandomColumn(9, n, true, false), RandomColumn(9, 3, false, false), RandomColumn(9, 7, true, false)}},
      {"weights", 5, {RandomColumn(9, n, true, true), RandomColumn(9, 3, false, true)}},
      {"the same id several times in a row", 3, {{n, {{i, i, i}, {i, 0, i}}}}},
      {"rows without any id", 3, {{n, {{}, {i}, {}, {}}}}},
      {"no id in the whole batch", 3, {{n, {{}, {}, {}}}}},
      {"unknown ids (-1), which count for nothing", 3, {{n, {{-1}, {i, -1}, {-1, -1, 0}}}}},
      {"unknown ids only", 3, {{n, {{-1}, {-1}}, false}}},
      {"the first and the last id", 3, {{n, {{0, n - 1}, {n - 1}, {0}}}, {2, {{1}, {0}, {1}}, false}}},
      {"a batch of one row", 3, {{n, {{i, 0}}}}},
      {"a batch of no rows", 3, {{n, {}}}},
      {"a vocabulary of one id", 3, {{1, {{0}, {}, {0, 0}}}}},
      {"a table of many rows", 64, {RandomColumn(600, 3000, true, false)}},
  };
  return cases;
}

using Floats = std::vector<float>;

// Exactly `count` floats, so that AddressSanitizer sees the first one past the end.
std::unique_ptr<float[]> Exactly(const Floats& values) {
  std::unique_ptr<float[]> copy(new float[values.size()]);
  std::copy(values.begin(), values.end(), copy.get());
  return copy;
}

Floats RandomFloats(int64_t count) {
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) value = normal(rng);
  return values;
}

// A case as kernels take it.
struct Buffers {
  std::vector<std::unique_ptr<int64_t[]>> ids, splits;
  std::vector<Floats> weight_values;
  std::vector<std::unique_ptr<float[]>> weights;
  std::vector<int64_t> counts;
  std::vector<IdColumn> columns;
  int64_t rows = 0, kernel_rows = 0;

  explicit Buffers(const Case& test) {
    rows = std::ssize(test.columns[0].bags);
    for (const Column& column : test.columns) {
      std::vector<int64_t> flat, ends = {0};
      for (const auto& bag : column.bags) {
        flat.insert(flat.end(), bag.begin(), bag.end());
        ends.push_back(std::ssize(flat));
      }
      counts.push_back(std::ssize(flat));
      ids.emplace_back(new int64_t[flat.size()]);
      std::copy(flat.begin(), flat.end(), ids.back().get());
      splits.emplace_back(new int64_t[ends.size()]);
      std::copy(ends.begin(), ends.end(), splits.back().get());
      weight_values.push_back(RandomFloats(column.weighted ? std::ssize(flat) : 0));
      weights.push_back(Exactly(weight_values.back()));
      columns.push_back({ids.back().get(), column.ragged ? splits.back().get() : nullptr,
                         column.weighted ? weights.back().get() : nullptr, kernel_rows, column.size});
      kernel_rows += column.size;
    }
  }
};

std::string Quoted(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "\"%.7g\"", value);
  return text;
}

[[noreturn]] void Fail(const std::string& rule, const std::string& test, const std::string& expected, const std::string& received,
                       const std::string& index) {
  std::printf("{\"rule\": \"%s\", \"case\": \"%s\", \"expected\": %s, \"received\": %s, \"index\": %s}\n", rule.c_str(), test.c_str(),
              expected.c_str(), received.c_str(), index.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

void Compare(const std::string& rule, const std::string& test, const Floats& expected, const Floats& magnitude, const float* received,
             int64_t width) {
  for (int64_t k = 0; k < std::ssize(expected); ++k) {
    if (std::abs(received[k] - expected[k]) <= 1e-5f * magnitude[k]) continue;
    std::string index = "[" + std::to_string(width ? k / width : k) + (width ? ", " + std::to_string(k % width) : "") + "]";
    Fail(rule, test, Quoted(expected[k]), Quoted(received[k]), index);
  }
}

Floats Absolute(Floats values) {
  for (float& value : values) value = std::abs(value);
  return values;
}

const Floats& Untouched(const std::string& test, const Floats& before, const float* now) {
  if (!before.empty() && std::memcmp(before.data(), now, before.size() * sizeof(float)) != 0) {
    Fail("A kernel must leave its inputs as they are.", test, "\"no change\"", "\"a changed input\"", "[]");
  }
  return before;
}

// One kernel on one case, with the work cut by each pool, against its twin.
struct Checker {
  std::string kernel;

  void Run(const Case& test) const {
    Buffers buffers(test);
    const int64_t O = test.outputs;
    const Floats kernel_values = RandomFloats(buffers.kernel_rows * O), d_out_values = RandomFloats(buffers.rows * O);
    for (const Pool& pool : pools) {
      const std::string name = test.name + ", " + pool.name;
      const auto kernel_copy = Exactly(kernel_values), d_out = Exactly(d_out_values);
      const IndicatorInput input{buffers.columns.data(), std::ssize(buffers.columns), buffers.rows, O};
      if (kernel == "indicator") {
        Forward(name, input, kernel_values, kernel_copy.get(), pool);
      } else if (kernel == "indicator_gradient") {
        Gradient(name, input, buffers, d_out_values, d_out.get(), pool);
      } else {
        WeightsGradient(name, input, buffers, kernel_values, kernel_copy.get(), d_out_values, d_out.get(), pool);
      }
      Untouched(name, kernel_values, kernel_copy.get());
      Untouched(name, d_out_values, d_out.get());
      for (size_t c = 0; c < buffers.weights.size(); ++c) Untouched(name, buffers.weight_values[c], buffers.weights[c].get());
    }
  }

  // The same input with absolute weights, for the size of the terms that a float32 sum rounds.
  static std::vector<IdColumn> AbsoluteColumns(const IndicatorInput& input, std::vector<Floats>& keep) {
    std::vector<IdColumn> columns(input.columns, input.columns + input.column_count);
    for (IdColumn& column : columns) {
      if (!column.weights) continue;
      const int64_t count = column.splits ? column.splits[input.rows] : input.rows;
      keep.push_back(Absolute(Floats(column.weights, column.weights + count)));
      column.weights = keep.back().data();
    }
    return columns;
  }

  static Floats Nans(int64_t count) { return Floats(count, std::numeric_limits<float>::quiet_NaN()); }

  static void Forward(const std::string& name, const IndicatorInput& input, const Floats& values, const float* kernel, const Pool& pool) {
    Floats expected(input.rows * input.outputs), magnitude(expected.size());
    scalar::Indicator(input, values.data(), expected.data());
    std::vector<Floats> keep;
    const auto columns = AbsoluteColumns(input, keep);
    scalar::Indicator({columns.data(), input.column_count, input.rows, input.outputs}, Absolute(values).data(), magnitude.data());
    const auto out = Exactly(Nans(std::ssize(expected)));
    ctrlab_indicator(&input, kernel, out.get(), &pool.parallel_for);
    Compare("out[b, o] must be the sum of weight * kernel[offset + id, o] over the known ids of row b.", name, expected, magnitude,
            out.get(), input.outputs);
  }

  static void Gradient(const std::string& name, const IndicatorInput& input, const Buffers& buffers, const Floats& values,
                       const float* d_out, const Pool& pool) {
    Floats expected(buffers.kernel_rows * input.outputs), magnitude(expected.size());
    scalar::IndicatorGradient(input, values.data(), expected.data());
    std::vector<Floats> keep;
    const auto columns = AbsoluteColumns(input, keep);
    scalar::IndicatorGradient({columns.data(), input.column_count, input.rows, input.outputs}, Absolute(values).data(), magnitude.data());
    const auto d_kernel = Exactly(Nans(std::ssize(expected)));
    ctrlab_indicator_gradient(&input, d_out, d_kernel.get(), &pool.parallel_for);
    Compare("d_kernel[offset + id, o] must be the sum of weight * d_out[b, o] over the rows b that hold id, 0 where none does.", name,
            expected, magnitude, d_kernel.get(), input.outputs);
  }

  static void WeightsGradient(const std::string& name, const IndicatorInput& input, const Buffers& buffers, const Floats& kernel_values,
                              const float* kernel, const Floats& d_out_values, const float* d_out, const Pool& pool) {
    std::vector<Floats> expected, magnitude;
    std::vector<std::unique_ptr<float[]>> received;
    std::vector<float*> expected_at, magnitude_at, received_at;
    for (int64_t count : buffers.counts) {
      expected.emplace_back(count);
      magnitude.emplace_back(count);
      received.push_back(Exactly(Nans(count)));
    }
    for (size_t c = 0; c < expected.size(); ++c) {
      expected_at.push_back(expected[c].data());
      magnitude_at.push_back(magnitude[c].data());
      received_at.push_back(received[c].get());
    }
    scalar::IndicatorWeightsGradient(input, kernel_values.data(), d_out_values.data(), expected_at.data());
    scalar::IndicatorWeightsGradient(input, Absolute(kernel_values).data(), Absolute(d_out_values).data(), magnitude_at.data());
    ctrlab_indicator_weights_gradient(&input, kernel, d_out, received_at.data(), &pool.parallel_for);
    for (size_t c = 0; c < expected.size(); ++c) {
      Compare("d_weights[i] must be the dot product of kernel[offset + id] and d_out[b], 0 where the id is -1.",
              name + ", column " + std::to_string(c), expected[c], magnitude[c], received_at[c], 0);
    }
  }
};

bool Defined(const std::string& kernel) {
  if (kernel == "indicator") return &ctrlab_indicator != nullptr;
  if (kernel == "indicator_gradient") return &ctrlab_indicator_gradient != nullptr;
  if (kernel == "indicator_weights_gradient") return &ctrlab_indicator_weights_gradient != nullptr;
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string kernel = argv[1];
  if (!Defined(kernel)) {
    Fail("The source must define the kernel with the signature of indicator.h.", "linking", "\"void ctrlab_" + kernel + "(...)\"",
         "\"no such function\"", "[]");
  }
  rng.seed(std::strtoull(argv[2], nullptr, 10));
  for (const Case& test : Cases()) Checker{kernel}.Run(test);
  std::printf("passed %s\n", argv[2]);  // a kernel that ends the process has not passed
  return 0;
}
