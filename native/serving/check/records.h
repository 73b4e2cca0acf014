// What the checks of weights write: records, files of them, and a model's small weights.

#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "serving/bundle.h"
#include "serving/weights_file.h"
#include "store/crc32c.h"

namespace ctrlab::check::engine {
extern std::atomic<int64_t> fail_in;  // in failing_new.cc
extern thread_local bool may_fail;
}  // namespace ctrlab::check::engine

namespace ctrlab::check {

using embedding::Status;
using serving::Bundle;
using serving::BundleShape;
using serving::Moment;
using serving::RecordKind;

inline std::mt19937_64 rng;

inline int64_t Below(int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(rng); }

inline void Require(bool good, const std::string& rule) {
  if (good) return;
  std::fprintf(stderr, "%s\n", rule.c_str());
  std::exit(1);
}

inline void Good(const Status& status) { Require(status.ok(), status.problem()); }

template <class Number>
void Append(std::string* to, Number number) {
  to->append(reinterpret_cast<const char*>(&number), sizeof number);
}

inline uint32_t Masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

inline std::string Framed(const std::string& data) {
  std::string framed;
  Append(&framed, uint64_t{data.size()});
  Append(&framed, Masked(embedding::Crc32c(framed.data(), 8)));
  framed += data;
  Append(&framed, Masked(embedding::Crc32c(data.data(), data.size())));
  return framed;
}

inline std::string Recorded(RecordKind kind, int32_t index, int64_t first, int64_t count, const std::string& arrays = "") {
  std::string data;
  Append(&data, static_cast<int32_t>(kind));
  Append(&data, index);
  Append(&data, first);
  Append(&data, count);
  return data + arrays;
}

constexpr int64_t kDim = 3, kFixed = 20, kKeys = 50;
const std::vector<int64_t> kDense = {0, 4, 1001};

// Each value shows the update that wrote it: u = 0 is the file of all weights, other u are the u-th update.
inline float Value(int64_t row, int64_t d, int64_t u = 0) { return static_cast<float>(row * kDim + d + 1'000 * u); }
inline int64_t Key(int64_t row) { return row * 7'919 - 100'000; }

inline std::string Values(int64_t first, int64_t count, int64_t u = 0) {
  std::string values;
  for (int64_t r = first; r < first + count; ++r) {
    for (int64_t d = 0; d < kDim; ++d) Append(&values, Value(r, d, u));
  }
  return values;
}

inline std::string Rows(int64_t first, int64_t count, bool counted, int64_t u = 0) {
  std::string rows;
  for (int64_t r = first; r < first + count; ++r) Append(&rows, Key(r));
  for (int64_t r = first; counted && r < first + count; ++r) Append(&rows, r);
  return rows + Values(first, count, u);
}

// Table 0 has a fixed number of rows; 1 takes any keys; 2 too, with few rows in memory; 3 and 4 are like 0 and 1, in 8 bits.
inline BundleShape Shape() {
  return {{{"fixed", kDim, kFixed},
           {"keys", kDim, -1},
           {"below", kDim, -1, 5},
           {"fixed bytes", kDim, kFixed, 0, RowFormat::kInt8},
           {"bytes", kDim, -1, 0, RowFormat::kInt8}},
          kDense};
}

// Number d of a row in 8 bits is (row + 1) * (d - row % 100).
inline float ByteValue(int64_t row, int64_t d) { return static_cast<float>((row + 1) * (d - row % 100)); }
inline std::string ByteRows(int64_t count) {
  std::string rows;
  for (int64_t r = 0; r < count; ++r) {
    Append(&rows, static_cast<float>(r + 1));
    for (int64_t d = 0; d < 4; ++d) rows += static_cast<char>(d < kDim ? d - r % 100 : 0);
  }
  return rows;
}

inline std::string ByteRecord(int32_t table, std::string rows) {
  const bool fixed = table == 3;
  const int64_t count = std::ssize(rows) / 8;
  std::string keys;
  for (int64_t r = 0; !fixed && r < count; ++r) Append(&keys, Key(r));
  return Recorded(fixed ? RecordKind::kRun : RecordKind::kRows, table, 0, count, keys + rows);
}

inline std::string Begin(const std::string& bundle, int64_t u) {
  std::string when;
  Append(&when, int64_t{1'000'000});
  return Recorded(RecordKind::kBegin, 1, u, 10 * u, when + bundle);
}

inline void AppendDense(std::vector<std::string>* records, int64_t u) {
  for (size_t d = 0; d < kDense.size(); ++d) {
    for (int64_t b = 0; b < kDense[d]; b += 600) {
      const int64_t count = std::min<int64_t>(600, kDense[d] - b);
      records->push_back(
          Recorded(RecordKind::kDense, static_cast<int32_t>(d), b, count, std::string(count, static_cast<char>('a' + d + u))));
    }
  }
}

inline std::vector<std::string> Records(const std::string& bundle) {
  std::vector<std::string> records = {Begin(bundle, 0)};
  for (int64_t r = 0; r < kFixed; r += 8) {
    const int64_t count = std::min<int64_t>(8, kFixed - r);
    records.push_back(Recorded(RecordKind::kRun, 0, r, count, Values(r, count)));
  }
  for (int32_t t = 1; t <= 2; ++t) {
    records.push_back(Recorded(RecordKind::kRows, t, 0, 30, Rows(0, 30, t == 2)));
    records.push_back(Recorded(RecordKind::kRows, t, 0, kKeys - 30, Rows(30, kKeys - 30, t == 2)));
  }
  records.push_back(ByteRecord(3, ByteRows(kFixed)));
  records.push_back(ByteRecord(4, ByteRows(kKeys)));
  AppendDense(&records, 0);
  records.push_back(Recorded(RecordKind::kEnd, 0, 0, std::ssize(records)));
  return records;
}

inline std::string FileOf(const std::vector<std::string>& records) {
  std::string file;
  for (const std::string& record : records) file += Framed(record);
  return file;
}

inline void Write(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
}

// A number that, as a size or a position in a record, is likely to point to a wrong place.
inline int64_t Odd() {
  constexpr int64_t kOdd[] = {0, 1, -1, 2, 3, kFixed, kKeys, 1 << 20, INT32_MAX, INT64_MAX, INT64_MIN, INT64_MAX / kDim / 4 + 1};
  return Below(2) ? kOdd[Below(std::size(kOdd))] : static_cast<int64_t>(rng()) >> Below(64);
}

// Makes one of the records invalid, or at least unusual.
inline void Spoil(std::vector<std::string>* records) {
  std::string& record = (*records)[Below(std::ssize(*records))];
  const int64_t what = Below(6), number = Odd();
  if (what < 2) {
    const auto half = static_cast<int32_t>(Below(2) ? Below(6) : number);
    std::memcpy(record.data() + 4 * what, &half, 4);
  } else if (what < 4) {
    std::memcpy(record.data() + 8 * (what - 1), &number, 8);
  } else if (what == 4) {
    record.resize(Below(2) ? Below(std::ssize(record) + 1) : record.size() + Below(40));
  } else {
    std::swap(record, (*records)[Below(std::ssize(*records))]);
  }
}

inline int Main(int count, char** words, const std::map<std::string, void (*)(const std::string&)>& checks) {
  Require(count == 4, "A check is called with what, a folder and a seed.");
  const auto check = checks.find(words[1]);
  Require(check != checks.end(), std::string("no check ") + words[1]);
  rng.seed(std::strtoull(words[3], nullptr, 10));
  setenv("TMPDIR", words[2], 1);
  check->second(std::string(words[2]) + "/weights");
  std::printf("passed %s %s\n", words[1], words[3]);
  return 0;
}

}  // namespace ctrlab::check
