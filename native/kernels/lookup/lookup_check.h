// The lookup kernels on columns of all kinds, against their scalar twins.

#pragma once

#include "check/harness.h"
#include "kernels/lookup/lookup.h"
#include "kernels/lookup/lookup_scalar.h"
#include "kernels/lookup/row_format.h"

#pragma weak ctrlab_lookup
#pragma weak ctrlab_lookup_merge
#pragma weak ctrlab_packed_lookup

namespace ctrlab::check::lookup {

using Bags = std::vector<std::vector<int64_t>>;  // each row's ids

struct Column {
  int64_t table;
  Combiner combiner;
  int64_t output;
  Bags bags;
  bool ragged = true;
};

struct Case {
  std::string name;
  std::vector<LookupTable> tables;
  std::vector<Column> columns;
};

inline Bags RandomBags(int64_t rows, int64_t size, bool ragged, int64_t longest = 6) {
  Bags bags(rows);
  for (auto& bag : bags) {
    bag.resize(ragged ? Uniform(0, longest + 1) : 1);
    for (int64_t& id : bag) id = Uniform(-1, size);
  }
  return bags;
}

// Other ids in bags of the same sizes.
inline Bags Alike(Bags bags, int64_t size) {
  for (auto& bag : bags) {
    for (int64_t& id : bag) id = Uniform(-1, size);
  }
  return bags;
}

inline std::vector<Case> Cases() {
  const int64_t n = Uniform(70, 200), i = Uniform(1, n);
  const Bags history = RandomBags(9, n, true), many = RandomBags(700, 9000, true, 60);
  return {
      {"one id a row", {{n, 4}}, {{0, kSum, 0, RandomBags(9, n, false), false}}},
      {"bags, summed", {{n, 16}}, {{0, kSum, 0, history}}},
      {"bags, their mean", {{n, 16}}, {{0, kMean, 0, history}}},
      {"a row for each id", {{n, 16}}, {{0, kRows, 0, history}}},
      {"a dimension of one", {{n, 1}}, {{0, kMean, 0, history}}},
      {"a dimension that no vector divides", {{n, 67}}, {{0, kMean, 0, history}, {0, kRows, 1, history}}},
      {"two columns of one table side by side",
       {{n, 18}},
       {{0, kSum, 0, history}, {0, kMean, 0, RandomBags(9, n, false), false}}},
      {"two tables of other dimensions", {{n, 3}, {7, 17}}, {{1, kSum, 0, RandomBags(9, 7, true)}, {0, kMean, 0, history}}},
      {"histories side by side, and a bag",
       {{n, 18}, {7, 18}},
       {{0, kRows, 1, history}, {1, kRows, 1, Alike(history, 7)}, {0, kMean, 0, history}}},
      {"the same id several times in a row", {{n, 3}}, {{0, kMean, 0, {{i, i, i}, {i, 0, i}}}}},
      {"rows without any id", {{n, 3}}, {{0, kMean, 0, {{}, {i}, {}, {}}}}},
      {"no id in the whole batch", {{n, 3}}, {{0, kSum, 0, {{}, {}, {}}}, {0, kRows, 1, {{}, {}, {}}}}},
      {"unknown ids (-1), which count for nothing",
       {{n, 18}},
       {{0, kMean, 0, {{-1}, {i, -1}, {-1, -1, 0}}}, {0, kRows, 1, {{-1}, {i, -1}, {0}}}}},
      {"unknown ids only", {{n, 3}}, {{0, kMean, 0, {{-1}, {-1}}, false}}},
      {"the first and the last id",
       {{n, 3}, {64, 2}},
       {{0, kSum, 0, {{0, n - 1}, {n - 1}, {0}}}, {1, kSum, 0, {{63}, {0}, {63}}, false}}},
      {"a batch of no rows", {{n, 3}}, {{0, kSum, 0, {}}}},
      {"a table of one row", {{1, 3}}, {{0, kMean, 0, {{0}, {}, {0, 0}}}}},
      {"a table that no column reads", {{n, 3}, {5, 4}}, {{0, kMean, 0, history}}},
      {"many ids of one table",
       {{9000, 18}, {40, 18}},
       {{0, kRows, 1, many}, {1, kRows, 1, Alike(many, 40)}, {0, kMean, 0, many}}},
  };
}

// A case as kernels take it.
struct Buffers {
  std::vector<std::unique_ptr<int64_t[]>> ids, splits;
  std::vector<LookupColumn> columns;
  std::vector<int64_t> widths, output_rows, room;  // room: a table's ids
  int64_t rows = 0;

  explicit Buffers(const Case& test) : room(test.tables.size(), 0) {
    rows = std::ssize(test.columns[0].bags);
    for (const Column& column : test.columns) {
      std::vector<int64_t> flat, ends = {0};
      for (const auto& bag : column.bags) {
        flat.insert(flat.end(), bag.begin(), bag.end());
        ends.push_back(std::ssize(flat));
      }
      ids.emplace_back(new int64_t[flat.size()]);
      std::copy(flat.begin(), flat.end(), ids.back().get());
      splits.emplace_back(new int64_t[ends.size()]);
      std::copy(ends.begin(), ends.end(), splits.back().get());
      widths.resize(std::max<size_t>(widths.size(), column.output + 1), 0);
      output_rows.resize(widths.size(), 0);
      columns.push_back({ids.back().get(), column.ragged ? splits.back().get() : nullptr, column.table, column.output,
                         widths[column.output], column.combiner});
      widths[column.output] += test.tables[column.table].dim;
      output_rows[column.output] = column.combiner == kRows ? std::ssize(flat) : rows;
      room[column.table] += std::ssize(flat);
    }
    for (size_t t = 0; t < room.size(); ++t) room[t] = std::min(room[t], test.tables[t].rows);
  }

  LookupInput Input(const Case& test) const {
    return {columns.data(), std::ssize(columns), test.tables.data(), std::ssize(test.tables), widths.data(), rows};
  }
};

// Arrays of exact sizes, and where each is.
struct Arrays {
  std::vector<Floats> values;
  std::vector<std::unique_ptr<float[]>> own;
  std::vector<const float*> in;
  std::vector<float*> out;

  void Add(Floats array) {
    own.push_back(Exactly(array));
    values.push_back(std::move(array));
    in.push_back(own.back().get());
    out.push_back(own.back().get());
  }

  Arrays Magnitudes() const {
    Arrays absolute;
    for (const Floats& array : values) absolute.Add(Absolute(array));
    return absolute;
  }
};

inline void Forward(const std::string& name, const Case& test, const Buffers& buffers, const Pool& pool) {
  const LookupInput input = buffers.Input(test);
  Arrays tables, expected, magnitude, out;
  for (const LookupTable& table : test.tables) tables.Add(RandomFloats(table.rows * table.dim));
  for (size_t m = 0; m < buffers.widths.size(); ++m) {
    for (Arrays* outputs : {&expected, &magnitude, &out}) outputs->Add(Nans(buffers.output_rows[m] * buffers.widths[m]));
  }
  scalar::Lookup(input, tables.in.data(), expected.out.data());
  scalar::Lookup(input, tables.Magnitudes().in.data(), magnitude.out.data());
  ctrlab_lookup(&input, tables.in.data(), out.out.data(), &pool.parallel_for);
  for (size_t m = 0; m < buffers.widths.size(); ++m) {
    const int64_t count = std::ssize(out.values[m]);
    Compare("out[b, offset + d] must be the sum or mean of table[id, d] over the known ids of row b, or the row of id b.",
            name + ", output " + std::to_string(m), Floats(expected.in[m], expected.in[m] + count),
            Floats(magnitude.in[m], magnitude.in[m] + count), out.in[m], buffers.widths[m]);
  }
  for (size_t t = 0; t < tables.values.size(); ++t) Untouched(name, tables.values[t], tables.in[t]);
}

// Room for a table's merged rows.
struct Merged {
  std::vector<std::unique_ptr<int64_t[]>> ids;
  Arrays rows;
  std::vector<MergedRows> of;

  Merged(const Case& test, const Buffers& buffers) {
    for (size_t t = 0; t < test.tables.size(); ++t) {
      ids.emplace_back(new int64_t[buffers.room[t]]);
      std::fill_n(ids.back().get(), buffers.room[t], -7);
      rows.Add(Nans(buffers.room[t] * test.tables[t].dim));
      of.push_back({ids.back().get(), rows.out.back(), -1});
    }
  }
};

inline void Merge(const std::string& name, const Case& test, const Buffers& buffers, const Pool& pool) {
  const LookupInput input = buffers.Input(test);
  Arrays d_out;
  for (size_t m = 0; m < buffers.widths.size(); ++m) d_out.Add(RandomFloats(buffers.output_rows[m] * buffers.widths[m]));
  Merged expected(test, buffers), magnitude(test, buffers), merged(test, buffers);
  scalar::LookupMerge(input, d_out.in.data(), expected.of.data());
  scalar::LookupMerge(input, d_out.Magnitudes().in.data(), magnitude.of.data());
  ctrlab_lookup_merge(&input, d_out.in.data(), merged.of.data(), &pool.parallel_for);
  for (size_t t = 0; t < test.tables.size(); ++t) {
    const std::string where = name + ", table " + std::to_string(t);
    const int64_t count = expected.of[t].count, numbers = count * test.tables[t].dim;
    if (merged.of[t].count != count) {
      Fail("The merged rows must be as many as the different known ids.", where, Quoted(count), Quoted(merged.of[t].count), "[]");
    }
    for (int64_t u = 0; u < count; ++u) {
      if (merged.of[t].ids[u] == expected.of[t].ids[u]) continue;
      Fail("The merged ids must be the known ids in ascending order, each once.", where, Quoted(expected.of[t].ids[u]),
           Quoted(merged.of[t].ids[u]), "[" + std::to_string(u) + "]");
    }
    Compare("A merged row must be the sum of weight * d_out over all places of its id.", where,
            Floats(expected.of[t].rows, expected.of[t].rows + numbers),
            Floats(magnitude.of[t].rows, magnitude.of[t].rows + numbers), merged.of[t].rows, test.tables[t].dim);
  }
  for (size_t m = 0; m < d_out.values.size(); ++m) Untouched(name, d_out.values[m], d_out.in[m]);
}

// Adds a table of packed rows in a format to `packed`, and the same numbers as float32 to `plain`.
inline void AddPacked(RowFormat format, const LookupTable& table, Arrays* packed, Arrays* plain) {
  const int64_t words = RowWords(format, table.dim);
  Floats rows(table.rows * words, 0.0f), numbers(table.rows * table.dim);
  for (int64_t r = 0; r < table.rows; ++r) {
    char* const row = reinterpret_cast<char*>(&rows[r * words]);
    const float scale = RandomFloats(1)[0];
    for (int64_t d = 0; d < table.dim; ++d) {
      const auto q = static_cast<int8_t>(Uniform(-127, 128));
      float& number = numbers[r * table.dim + d] = std::abs(scale) * q;
      if (format == RowFormat::kBf16) {
        const uint32_t high = std::bit_cast<uint32_t>(number) >> 16;
        std::memcpy(row + 2 * d, &high, 2);  // the low half of the word
        number = std::bit_cast<float>(high << 16);
      } else if (format == RowFormat::kInt8) {
        const float size = std::abs(scale);
        std::memcpy(row, &size, 4);
        row[4 + d] = static_cast<char>(q);
      } else {
        std::memcpy(row + 4 * d, &number, 4);
      }
    }
  }
  packed->Add(rows);
  plain->Add(numbers);
}

inline void PackedForward(const std::string& name, const Case& test, const Buffers& buffers, const Pool& pool, int64_t shift) {
  const LookupInput input = buffers.Input(test);
  Arrays packed, plain, expected, magnitude, out;
  std::vector<RowFormat> formats;
  for (size_t t = 0; t < test.tables.size(); ++t) {
    formats.push_back(static_cast<RowFormat>((t + shift) % 3));
    AddPacked(formats.back(), test.tables[t], &packed, &plain);
  }
  for (size_t m = 0; m < buffers.widths.size(); ++m) {
    for (Arrays* outputs : {&expected, &magnitude, &out}) outputs->Add(Nans(buffers.output_rows[m] * buffers.widths[m]));
  }
  scalar::Lookup(input, plain.in.data(), expected.out.data());
  scalar::Lookup(input, plain.Magnitudes().in.data(), magnitude.out.data());
  ctrlab_packed_lookup(&input, packed.in.data(), formats.data(), out.out.data(), &pool.parallel_for);
  for (size_t m = 0; m < buffers.widths.size(); ++m) {
    const int64_t count = std::ssize(out.values[m]);
    Compare("out[b, offset + d] must be the sum or mean of the unpacked table[id, d] over the known ids of row b.",
            name + ", output " + std::to_string(m), Floats(expected.in[m], expected.in[m] + count),
            Floats(magnitude.in[m], magnitude.in[m] + count), out.in[m], buffers.widths[m]);
  }
}

inline void Check(const std::string& kernel) {
  for (const Case& test : Cases()) {
    const Buffers buffers(test);
    for (const Pool& pool : pools) {
      if (kernel == "packed_lookup") {
        for (int64_t shift = 0; shift < 3; ++shift) PackedForward(Trying(test.name, pool), test, buffers, pool, shift);
        continue;
      }
      (kernel == "lookup" ? Forward : Merge)(Trying(test.name, pool), test, buffers, pool);
    }
  }
}

inline const Entry entries[] = {
    {"lookup", &ctrlab_lookup != nullptr, "kernels/lookup/lookup.h", Check},
    {"packed_lookup", &ctrlab_packed_lookup != nullptr, "kernels/lookup/lookup.h", Check},
    {"lookup_merge", &ctrlab_lookup_merge != nullptr, "kernels/lookup/lookup.h", Check},
};

}  // namespace ctrlab::check::lookup
