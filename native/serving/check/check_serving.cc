// Checks the loading of an export's weights, under sanitizers.
//
//   check_serving <what> <folder> <seed>    exit code 0 and "passed <what> <seed>"; or 1 and a sentence on stderr
//
// <what>: whole     a bundle holds what its file holds, in memory and below it; a second one finds it open
//         damage    every byte is changed, and the file is cut to every length
//         odd       files with right checksums and anything in them
//         threads   bundles of one name are found, opened, read and released at once
//         memory    each allocation fails in turn

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "serving/bundle.h"
#include "serving/weights_file.h"
#include "store/crc32c.h"

namespace ctrlab::check::engine {
extern std::atomic<int64_t> fail_in;  // in failing_new.cc
extern thread_local bool may_fail;
}  // namespace ctrlab::check::engine

namespace {

using namespace ctrlab;
using embedding::Status;
using serving::Bundle;
using serving::BundleShape;
using serving::RecordKind;

std::mt19937_64 rng;

int64_t Below(int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(rng); }

void Require(bool good, const std::string& rule) {
  if (good) return;
  std::fprintf(stderr, "%s\n", rule.c_str());
  std::exit(1);
}

void Good(const Status& status) { Require(status.ok(), status.problem()); }

template <class Number>
void Append(std::string* to, Number number) {
  to->append(reinterpret_cast<const char*>(&number), sizeof number);
}

uint32_t Masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

std::string Framed(const std::string& data) {
  std::string framed;
  Append(&framed, uint64_t{data.size()});
  Append(&framed, Masked(embedding::Crc32c(framed.data(), 8)));
  framed += data;
  Append(&framed, Masked(embedding::Crc32c(data.data(), data.size())));
  return framed;
}

std::string Recorded(RecordKind kind, int32_t index, int64_t first, int64_t count, const std::string& arrays = "") {
  std::string data;
  Append(&data, static_cast<int32_t>(kind));
  Append(&data, index);
  Append(&data, first);
  Append(&data, count);
  return data + arrays;
}

constexpr int64_t kDim = 3, kFixed = 20, kKeys = 50;
const std::vector<int64_t> kDense = {0, 4, 1001};

float Value(int64_t row, int64_t d) { return static_cast<float>(row * kDim + d); }
int64_t Key(int64_t row) { return row * 7'919 - 100'000; }

std::string Values(int64_t first, int64_t count) {
  std::string values;
  for (int64_t r = first; r < first + count; ++r) {
    for (int64_t d = 0; d < kDim; ++d) Append(&values, Value(r, d));
  }
  return values;
}

std::string Rows(int64_t first, int64_t count, bool counted) {
  std::string rows;
  for (int64_t r = first; r < first + count; ++r) Append(&rows, Key(r));
  for (int64_t r = first; counted && r < first + count; ++r) Append(&rows, r);
  return rows + Values(first, count);
}

// Table 0 has a fixed number of rows; 1 takes any keys; of 2, few rows are in memory.
BundleShape Shape() { return {{{"fixed", kDim, kFixed}, {"keys", kDim, -1}, {"below", kDim, -1, 5}}, kDense}; }

std::vector<std::string> Records() {
  std::vector<std::string> records = {Recorded(RecordKind::kBegin, 1, 0, 0)};
  for (int64_t r = 0; r < kFixed; r += 8) {
    const int64_t count = std::min<int64_t>(8, kFixed - r);
    records.push_back(Recorded(RecordKind::kRun, 0, r, count, Values(r, count)));
  }
  for (int32_t t = 1; t <= 2; ++t) {
    records.push_back(Recorded(RecordKind::kRows, t, 0, 30, Rows(0, 30, t == 2)));
    records.push_back(Recorded(RecordKind::kRows, t, 0, kKeys - 30, Rows(30, kKeys - 30, t == 2)));
  }
  for (size_t d = 0; d < kDense.size(); ++d) {
    for (int64_t b = 0; b < kDense[d]; b += 600) {
      const int64_t count = std::min<int64_t>(600, kDense[d] - b);
      records.push_back(Recorded(RecordKind::kDense, static_cast<int32_t>(d), b, count, std::string(count, 'a' + d)));
    }
  }
  records.push_back(Recorded(RecordKind::kEnd, 0, 0, std::ssize(records)));
  return records;
}

std::string FileOf(const std::vector<std::string>& records) {
  std::string file;
  for (const std::string& record : records) file += Framed(record);
  return file;
}

void Write(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
}

void HoldsAll(const Bundle& bundle) {
  Require(bundle.is_open(), "A bundle is open after Open.");
  for (int64_t r = 0; r < kFixed; ++r) {
    for (int64_t d = 0; d < kDim; ++d) {
      Require(bundle.table(0).fixed->data<float>()[r * kDim + d] == Value(r, d), "A fixed table holds its rows.");
    }
  }
  std::vector<int64_t> keys;
  for (int64_t r = 0; r < kKeys; ++r) keys.push_back(Key(r));
  keys.push_back(-1);
  for (int64_t t = 1; t <= 2; ++t) {
    std::vector<float> found(keys.size() * kDim, -1);
    Good(bundle.table(t).growing->Lookup(keys.data(), std::ssize(keys), found.data(), kAlone));
    for (int64_t r = 0; r <= kKeys; ++r) {
      for (int64_t d = 0; d < kDim; ++d) {
        Require(found[r * kDim + d] == (r < kKeys ? Value(r, d) : 0), "A growing table holds its rows; another key reads 0.");
      }
    }
  }
  for (size_t d = 0; d < kDense.size(); ++d) {
    const char* const bytes = bundle.dense()->at(d);
    Require(reinterpret_cast<uintptr_t>(bytes) % 64 == 0, "A dense tensor is aligned.");
    for (int64_t b = 0; b < kDense[d]; ++b) Require(bytes[b] == static_cast<char>('a' + d), "A dense tensor holds its bytes.");
  }
}

void CheckWhole(const std::string& path) {
  Write(path, FileOf(Records()));
  auto bundle = Bundle::Named("whole");
  Require(!bundle->Open(Shape(), path + "-none", kAlone).ok() && !bundle->is_open(), "A file that is not there is refused.");
  Require(!bundle->Open(Shape(), "/tmp", kAlone).ok() && !bundle->is_open(), "A folder is refused.");
  Good(bundle->Open(Shape(), path, kAlone));
  HoldsAll(*bundle);
  std::remove(path.c_str());
  auto again = Bundle::Named("whole");
  Require(again == bundle, "A process has one bundle of each name.");
  Good(again->Open(Shape(), path, kAlone));
  bundle.reset();
  HoldsAll(*again);
  again.reset();
  Require(!Bundle::Named("whole")->Open(Shape(), path, kAlone).ok(), "A bundle goes with its last user.");
}

// A file that is not as it was written is refused, and the right one is taken then.
void Refused(const std::string& path, const std::string& content, const std::string& how) {
  auto bundle = Bundle::Named("refused");
  Write(path, content);
  const Status status = bundle->Open(Shape(), path, kAlone);
  Require(!status.ok(), "Damage is noticed; this was not: " + how);
  Require(status.problem().find(path) != std::string::npos, "A refusal names the file; this does not: " + status.problem());
  Require(!bundle->is_open(), "A bundle is not open after a refusal.");
}

void CheckDamage(const std::string& path) {
  const std::string right = FileOf(Records());
  for (size_t b = 0; b < right.size(); ++b) {
    std::string wrong = right;
    wrong[b] ^= static_cast<char>(1 << Below(8));
    Refused(path, wrong, "a bit of byte " + std::to_string(b));
    Refused(path, right.substr(0, b), "a cut at byte " + std::to_string(b));
  }
  Refused(path, right + "x", "a byte behind the end");
  CheckWhole(path);
}

// Numbers that are likely to lead somewhere else.
int64_t Odd() {
  constexpr int64_t kOdd[] = {0, 1, -1, 2, 3, kFixed, kKeys, 1 << 20, INT32_MAX, INT64_MAX, INT64_MIN, INT64_MAX / kDim / 4 + 1};
  return Below(2) ? kOdd[Below(std::size(kOdd))] : static_cast<int64_t>(rng()) >> Below(64);
}

void CheckOdd(const std::string& path) {
  int64_t taken = 0;
  for (int round = 0; round < 5'000; ++round) {
    std::vector<std::string> records = Records();
    for (int64_t changes = 1 + Below(3); changes > 0; --changes) {
      std::string& record = records[Below(std::ssize(records))];
      const int64_t what = Below(6), number = Odd();
      if (what < 2) {
        const auto half = static_cast<int32_t>(Below(2) ? Below(6) : number);
        std::memcpy(record.data() + 4 * what, &half, 4);
      } else if (what < 4) {
        std::memcpy(record.data() + 8 * (what - 1), &number, 8);
      } else if (what == 4) {
        record.resize(Below(2) ? Below(std::ssize(record) + 1) : record.size() + Below(40));
      } else {
        std::swap(record, records[Below(std::ssize(records))]);
      }
    }
    if (Below(2)) records.back() = Recorded(RecordKind::kEnd, 0, 0, std::ssize(records) - 1);
    Write(path, FileOf(records));
    auto bundle = Bundle::Named("odd");
    const Status status = bundle->Open(Shape(), path, kAlone);
    taken += status.ok();
    Require(status.ok() == bundle->is_open(), "A bundle is open after Open succeeded, and only then.");
  }
  Require(taken < 2'500, "Most of these files are refused.");
  CheckWhole(path);
}

void CheckThreads(const std::string& path) {
  Write(path, FileOf(Records()));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 200; ++round) {
        auto bundle = Bundle::Named((round + t) % 3 ? "shared" : "another");
        Good(bundle->Open(Shape(), path, kAlone));
        HoldsAll(*bundle);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void CheckMemory(const std::string& path) {
  Write(path, FileOf(Records()));
  const BundleShape shape = Shape();
  int64_t refused = 0;
  for (int64_t allocation = 1;; ++allocation) {
    auto bundle = Bundle::Named("memory");
    check::engine::may_fail = true;
    check::engine::fail_in = allocation;
    const Status status = bundle->Open(shape, path, kAlone);
    const bool failed = check::engine::fail_in <= 0;
    check::engine::fail_in = 0;
    check::engine::may_fail = false;
    if (status.ok()) {
      HoldsAll(*bundle);
      if (!failed) break;
      continue;
    }
    ++refused;
    Require(!bundle->is_open(), "A bundle is not open after a refusal.");
    Good(bundle->Open(Shape(), path, kAlone));
    HoldsAll(*bundle);
  }
  Require(refused > 20, "Allocations fail here.");
}

}  // namespace

int main(int count, char** words) {
  Require(count == 4, "usage: check_serving <what> <folder> <seed>");
  const std::map<std::string, void (*)(const std::string&)> checks = {
      {"whole", CheckWhole}, {"damage", CheckDamage}, {"odd", CheckOdd}, {"threads", CheckThreads}, {"memory", CheckMemory}};
  const auto check = checks.find(words[1]);
  Require(check != checks.end(), std::string("no check ") + words[1]);
  rng.seed(std::strtoull(words[3], nullptr, 10));
  setenv("TMPDIR", words[2], 1);
  check->second(std::string(words[2]) + "/weights");
  std::printf("passed %s %s\n", words[1], words[3]);
}
