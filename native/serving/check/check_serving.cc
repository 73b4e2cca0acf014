// Checks the loading of an export's weights, under sanitizers.
//
//   check_serving <what> <folder> <seed>    exit code 0 and "passed <what> <seed>"; or 1 and a sentence on stderr
//
// <what>: whole     a bundle holds what its file holds, in memory and below it; a second one finds it open
//         damage    every byte is changed, and the file is cut to every length
//         odd       files with right checksums and anything in them
//         scales    rows in 8 bits with a scale that is none
//         threads   bundles of one name are found, opened, read and released at once
//         memory    each allocation fails in turn

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "serving/check/records.h"

namespace ctrlab::check {
namespace {

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
  std::vector<float> found(keys.size() * kDim, -1);
  Good(bundle.table(4).growing->Lookup(keys.data(), std::ssize(keys), found.data(), kAlone));
  for (int64_t r = 0; r <= kKeys; ++r) {
    for (int64_t d = 0; d < kDim; ++d) {
      Require(found[r * kDim + d] == (r < kKeys ? ByteValue(r, d) : 0), "A growing table unpacks its rows; another key reads 0.");
    }
  }
  const std::string bytes = ByteRows(kFixed);
  Require(std::memcmp(bundle.table(3).fixed->data<char>(), bytes.data(), bytes.size()) == 0, "A fixed table holds packed rows.");
  for (size_t d = 0; d < kDense.size(); ++d) {
    const char* const bytes = bundle.dense()->at(d);
    Require(reinterpret_cast<uintptr_t>(bytes) % 64 == 0, "A dense tensor is aligned.");
    for (int64_t b = 0; b < kDense[d]; ++b) Require(bytes[b] == static_cast<char>('a' + d), "A dense tensor holds its bytes.");
  }
}

void CheckWhole(const std::string& path) {
  Write(path, FileOf(Records("whole")));
  auto bundle = Bundle::Named("whole");
  Require(!bundle->Open(Shape(), path + "-none", kAlone).ok() && !bundle->is_open(), "A file that is not there is refused.");
  Write(path + "-another", FileOf(Records("another")));
  Require(!bundle->Open(Shape(), path + "-another", kAlone).ok() && !bundle->is_open(), "Another export's weights are refused.");
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
  const std::string right = FileOf(Records("refused"));
  for (size_t b = 0; b < right.size(); ++b) {
    std::string wrong = right;
    wrong[b] ^= static_cast<char>(1 << Below(8));
    Refused(path, wrong, "a bit of byte " + std::to_string(b));
    Refused(path, right.substr(0, b), "a cut at byte " + std::to_string(b));
  }
  Refused(path, right + "x", "a byte behind the end");
  CheckWhole(path);
}

void CheckOdd(const std::string& path) {
  int64_t taken = 0;
  for (int round = 0; round < 5'000; ++round) {
    std::vector<std::string> records = Records("odd");
    for (int64_t changes = 1 + Below(3); changes > 0; --changes) Spoil(&records);
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

// In each of the places where rows in 8 bits stand.
void CheckScales(const std::string& path) {
  for (int32_t table = 3; table <= 4; ++table) {
    for (const float scale : {-1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::string rows = ByteRows(table == 3 ? kFixed : kKeys);
      std::memcpy(rows.data() + 8 * Below(kFixed), &scale, sizeof scale);
      std::vector<std::string> records = Records("refused");
      for (std::string& record : records) {
        int32_t kind, index;
        std::memcpy(&kind, record.data(), 4);
        std::memcpy(&index, record.data() + 4, 4);
        if (index == table && kind != static_cast<int32_t>(RecordKind::kDense)) record = ByteRecord(table, rows);
      }
      Refused(path, FileOf(records), "a scale of " + std::to_string(scale));
    }
  }
  CheckWhole(path);
}

void CheckThreads(const std::string& path) {
  for (const char* name : {"shared", "another"}) Write(path + name, FileOf(Records(name)));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 200; ++round) {
        const std::string name = (round + t) % 3 ? "shared" : "another";
        auto bundle = Bundle::Named(name);
        Good(bundle->Open(Shape(), path + name, kAlone));
        HoldsAll(*bundle);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void CheckMemory(const std::string& path) {
  Write(path, FileOf(Records("memory")));
  const BundleShape shape = Shape();
  int64_t refused = 0;
  for (int64_t allocation = 1;; ++allocation) {
    auto bundle = Bundle::Named("memory");
    engine::may_fail = true;
    engine::fail_in = allocation;
    const Status status = bundle->Open(shape, path, kAlone);
    const bool failed = engine::fail_in <= 0;
    engine::fail_in = 0;
    engine::may_fail = false;
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
}  // namespace ctrlab::check

int main(int count, char** words) {
  using namespace ctrlab::check;
  return Main(count, words,
              {{"whole", CheckWhole},
               {"damage", CheckDamage},
               {"odd", CheckOdd},
               {"scales", CheckScales},
               {"threads", CheckThreads},
               {"memory", CheckMemory}});
}
