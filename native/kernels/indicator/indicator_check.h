// The indicator kernels on random and adversarial batches, against their scalar twins.

#pragma once

#include "check/harness.h"
#include "kernels/indicator/indicator.h"
#include "kernels/indicator/indicator_scalar.h"

#pragma weak ctrlab_indicator
#pragma weak ctrlab_indicator_gradient
#pragma weak ctrlab_indicator_weights_gradient

namespace ctrlab::check::indicator {

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

inline Column RandomColumn(int64_t rows, int64_t size, bool ragged, bool weighted) {
  Column column{size, {}, ragged, weighted};
  for (int64_t b = 0; b < rows; ++b) {
    std::vector<int64_t> bag(ragged ? Uniform(0, 7) : 1);
    for (int64_t& id : bag) id = Uniform(-1, size);
    column.bags.push_back(bag);
  }
  return column;
}

inline std::vector<Case> Cases() {
  const int64_t n = Uniform(5, 40), i = Uniform(1, n);
  std::vector<Case> cases = {
      {"one id a row", 4, {RandomColumn(9, n, false, false)}},
      {"bags of ids", 4, {RandomColumn(9, n, true, false)}},
      {"one output", 1, {RandomColumn(9, n, true, false)}},
      {"64 outputs", 64, {RandomColumn(33, n, true, false)}},
      {"a number of outputs that no vector divides", 67, {RandomColumn(9, n, true, false)}},
      {"several columns",
       5,
       {RandomColumn(9, n, true, false), RandomColumn(9, 3, false, false), RandomColumn(9, 7, true, false)}},
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

// One kernel on one case, with the work cut by each pool, against its twin.
struct Checker {
  std::string kernel;

  void Run(const Case& test) const {
    Buffers buffers(test);
    const int64_t O = test.outputs;
    const Floats kernel_values = RandomFloats(buffers.kernel_rows * O), d_out_values = RandomFloats(buffers.rows * O);
    for (const Pool& pool : pools) {
      const std::string name = Trying(test.name, pool);
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

  static void Forward(const std::string& name, const IndicatorInput& input, const Floats& values, const float* kernel,
                      const Pool& pool) {
    Floats expected(input.rows * input.outputs), magnitude(expected.size());
    scalar::Indicator(input, values.data(), expected.data());
    std::vector<Floats> keep;
    const auto columns = AbsoluteColumns(input, keep);
    scalar::Indicator({columns.data(), input.column_count, input.rows, input.outputs}, Absolute(values).data(), magnitude.data());
    const auto out = Exactly(Nans(std::ssize(expected)));
    ctrlab_indicator(&input, kernel, out.get(), &pool.parallel_for);
    Compare("out[b, o] must be the sum of weight * kernel[offset + id, o] over the known ids of row b.", name, expected,
            magnitude, out.get(), input.outputs);
  }

  static void Gradient(const std::string& name, const IndicatorInput& input, const Buffers& buffers, const Floats& values,
                       const float* d_out, const Pool& pool) {
    Floats expected(buffers.kernel_rows * input.outputs), magnitude(expected.size());
    scalar::IndicatorGradient(input, values.data(), expected.data());
    std::vector<Floats> keep;
    const auto columns = AbsoluteColumns(input, keep);
    scalar::IndicatorGradient({columns.data(), input.column_count, input.rows, input.outputs}, Absolute(values).data(),
                              magnitude.data());
    const auto d_kernel = Exactly(Nans(std::ssize(expected)));
    ctrlab_indicator_gradient(&input, d_out, d_kernel.get(), &pool.parallel_for);
    Compare("d_kernel[offset + id, o] must be the sum of weight * d_out[b, o] over the rows b that hold id, 0 where none does.",
            name, expected, magnitude, d_kernel.get(), input.outputs);
  }

  static void WeightsGradient(const std::string& name, const IndicatorInput& input, const Buffers& buffers,
                              const Floats& kernel_values, const float* kernel, const Floats& d_out_values, const float* d_out,
                              const Pool& pool) {
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

inline void Check(const std::string& kernel) {
  for (const Case& test : Cases()) Checker{kernel}.Run(test);
}

inline const Entry entries[] = {
    {"indicator", &ctrlab_indicator != nullptr, "kernels/indicator/indicator.h", Check},
    {"indicator_gradient", &ctrlab_indicator_gradient != nullptr, "kernels/indicator/indicator.h", Check},
    {"indicator_weights_gradient", &ctrlab_indicator_weights_gradient != nullptr, "kernels/indicator/indicator.h", Check},
};

}  // namespace ctrlab::check::indicator
