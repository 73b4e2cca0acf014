// The exchange's kernel on columns of all kinds, against its scalar twin.

#pragma once

#include "check/harness.h"
#include "kernels/exchange/exchange.h"
#include "kernels/exchange/exchange_scalar.h"

#pragma weak ctrlab_asked_keys

namespace ctrlab::check::exchange {

struct Column {
  int64_t table;
  std::vector<int64_t> ids;
};

struct Case {
  std::string name;
  int64_t tables, workers;
  std::vector<Column> columns;
};

inline std::vector<int64_t> Ids(int64_t count, int64_t low, int64_t high) {
  std::vector<int64_t> ids(count);
  for (int64_t& id : ids) id = Uniform(low, high);
  return ids;
}

inline std::vector<Case> Cases() {
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  const int64_t n = Uniform(20, 90);
  return {
      {"one column", 1, 2, {{0, Ids(n, 0, 40)}}},
      {"unknown ids (-1) among the others", 1, 3, {{0, Ids(n, -1, 20)}}},
      {"unknown ids only", 1, 2, {{0, {-1, -1}}}},
      {"several columns of several tables", 3, 4, {{0, Ids(n, 0, 9)}, {0, Ids(3, 0, 9)}, {1, Ids(n, 0, 99)}, {2, Ids(n, -1, 9)}}},
      {"no ids", 2, 2, {{0, {}}, {1, {}}}},
      {"a table that no column reads", 3, 2, {{0, Ids(n, 0, 9)}, {2, Ids(n, 0, 9)}}},
      {"one worker", 1, 1, {{0, Ids(n, 0, 50)}}},
      {"more workers than keys", 1, 7, {{0, {3, 3, 3, 10}}}},
      {"the largest keys", 1, 3, {{0, {kLast, kLast - 1, 0, kLast}}}},
      {"one key many times", 2, 2, {{0, std::vector<int64_t>(400, n)}, {1, std::vector<int64_t>(300, 0)}}},
      {"keys a power of two apart", 1, 2, {{0, {0, 1 << 20, 1 << 21, 3 << 20, 1LL << 40, 1LL << 62, 0}}}},
      {"many keys", 2, 4, {{0, Ids(5000, 0, 9000)}, {1, Ids(3000, -1, 400)}}},
  };
}

// Keys of growing tables may be any number.
inline Case Growing(Case test) {
  for (Column& column : test.columns) {
    for (int64_t& id : column.ids) id = id % 3 == 0 ? -id - 1 : id;
  }
  if (!test.columns[0].ids.empty()) test.columns[0].ids[0] = std::numeric_limits<int64_t>::min();
  return test;
}

struct Answer {
  std::vector<std::unique_ptr<int64_t[]>> ids, places;
  std::vector<AskedColumn> columns;
  std::unique_ptr<int64_t[]> keys, times;
  std::unique_ptr<int32_t[]> counts;
  AskedKeys asked;

  explicit Answer(const Case& test) {
    int64_t room = 0;
    for (const Column& column : test.columns) {
      const int64_t count = std::ssize(column.ids);
      ids.emplace_back(new int64_t[count]);
      std::copy(column.ids.begin(), column.ids.end(), ids.back().get());
      places.emplace_back(new int64_t[count]);
      std::fill_n(places.back().get(), count, -7);
      columns.push_back({ids.back().get(), count, column.table, places.back().get()});
      room += count;
    }
    keys.reset(new int64_t[room]);
    times.reset(new int64_t[room]);
    counts.reset(new int32_t[test.workers * test.tables]);
    std::fill_n(counts.get(), test.workers * test.tables, -7);
    asked = {keys.get(), times.get(), counts.get(), -1};
  }
};

template <class Number>
void Same(const char* rule, const std::string& name, const Number* expected, const Number* received, int64_t count) {
  for (int64_t k = 0; k < count; ++k) {
    if (expected[k] == received[k]) continue;
    Fail(rule, name, std::to_string(expected[k]), std::to_string(received[k]), "[" + std::to_string(k) + "]");
  }
}

inline void Try(const Case& test, bool grows, const Pool& pool) {
  const std::string name = Trying(test.name + (grows ? ", growing" : ", dense"), pool);
  Answer expected(test), found(test);
  const int64_t columns = std::ssize(test.columns);
  scalar::AskedKeys(expected.columns.data(), columns, test.tables, test.workers, grows, &expected.asked);
  ctrlab_asked_keys(found.columns.data(), columns, test.tables, test.workers, grows, &found.asked, &pool.parallel_for);
  Same("A key must be asked for once.", name, &expected.asked.count, &found.asked.count, 1);
  Same("Keys must be counted by owner and table.", name, expected.counts.get(), found.counts.get(), test.workers * test.tables);
  Same("Keys must come by owner, by table, as they first came.", name, expected.keys.get(), found.keys.get(),
       expected.asked.count);
  Same("A key's times must be its ids.", name, expected.times.get(), found.times.get(), expected.asked.count);
  for (int64_t c = 0; c < columns; ++c) {
    Same("An id's place must be its key's.", name, expected.places[c].get(), found.places[c].get(), expected.columns[c].count);
    Same("A kernel must leave its inputs as they are.", name, test.columns[c].ids.data(), found.ids[c].get(),
         expected.columns[c].count);
  }
}

inline void Check(const std::string&) {
  for (const Case& test : Cases()) {
    for (const Pool& pool : pools) {
      Try(test, false, pool);
      Try(Growing(test), true, pool);
    }
  }
}

inline const Entry entries[] = {
    {"asked_keys", &ctrlab_asked_keys != nullptr, "kernels/exchange/exchange.h", Check},
};

}  // namespace ctrlab::check::exchange
