// Checks the updates of an export's weights, under sanitizers.
//
//   check_update <what> <folder> <seed>    exit code 0 and "passed <what> <seed>"; or 1 and a sentence on stderr
//
// <what>: apply     rows change, come and go, in memory and below it; updates follow each other
//         damage    every byte is changed, and the file is cut to every length: nothing has changed then
//         odd       files with right checksums and anything in them: an update has changed everything, or nothing
//         threads   who holds the gate sees one moment, while updates come
//         memory    each allocation fails in turn: nothing has changed then

#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "serving/check/records.h"

namespace ctrlab::check {
namespace {

constexpr int64_t kChanged = 10;  // rows of the fixed table, from the first
constexpr int64_t kGone = 5;      // keys that each update removes, from the first; the next one brings them back

// Update u changes some rows of the fixed table, and all of the others but those that it removes.
std::vector<std::string> Changes(const std::string& bundle, int64_t u) {
  std::vector<std::string> records = {Begin(bundle, u)};
  std::string ids;
  for (int64_t r = 0; r < kChanged; ++r) Append(&ids, r);
  records.push_back(Recorded(RecordKind::kRows, 0, 0, kChanged, ids + Values(0, kChanged, u)));
  const int64_t from = u % 2 ? kGone : 0;
  for (int32_t t = 1; t <= 2; ++t) {
    std::string gone;
    for (int64_t r = 0; r < from; ++r) Append(&gone, Key(r));
    records.push_back(Recorded(RecordKind::kRemoved, t, 0, from, gone));
    records.push_back(Recorded(RecordKind::kRows, t, 0, kKeys - from, Rows(from, kKeys - from, t == 2, u)));
  }
  AppendDense(&records, u);
  records.push_back(Recorded(RecordKind::kEnd, 0, 0, std::ssize(records)));
  return records;
}

// That everything is of the bundle's moment.
void HoldsOneMoment(const Bundle& bundle) {
  const int64_t u = bundle.moment().update;
  Require(bundle.moment().step == 10 * u, "A moment has its step.");
  for (int64_t r = 0; r < kFixed; ++r) {
    for (int64_t d = 0; d < kDim; ++d) {
      const float wanted = Value(r, d, r < kChanged ? u : 0);
      Require(bundle.table(0).fixed->data<float>()[r * kDim + d] == wanted, "A fixed table has the rows of one moment.");
    }
  }
  const int64_t from = u % 2 ? kGone : 0;
  std::vector<int64_t> keys;
  for (int64_t r = 0; r < kKeys; ++r) keys.push_back(Key(r));
  for (int64_t t = 1; t <= 2; ++t) {
    std::vector<float> found(keys.size() * kDim, -1);
    Good(bundle.table(t).growing->Lookup(keys.data(), std::ssize(keys), found.data(), kAlone));
    for (int64_t r = 0; r < kKeys; ++r) {
      for (int64_t d = 0; d < kDim; ++d) {
        Require(found[r * kDim + d] == (r < from ? 0 : Value(r, d, u)), "A growing table has the rows of one moment.");
      }
    }
  }
  for (size_t d = 0; d < kDense.size(); ++d) {
    for (int64_t b = 0; b < kDense[d]; ++b) {
      Require(bundle.dense()->at(d)[b] == static_cast<char>('a' + d + u), "A dense tensor has the bytes of one moment.");
    }
  }
}

std::shared_ptr<Bundle> Opened(const std::string& name, const std::string& path) {
  Write(path, FileOf(Records(name)));
  auto bundle = Bundle::Named(name);
  Good(bundle->Open(Shape(), path, kAlone));
  return bundle;
}

std::string Written(const std::string& path, const std::string& name, int64_t u) {
  const std::string place = path + "-" + std::to_string(u);
  Write(place, FileOf(Changes(name, u)));
  return place;
}

void Refused(Bundle* bundle, const std::string& path, const std::string& how) {
  const Status status = bundle->Apply(path);
  Require(!status.ok(), "This is refused: " + how);
  Require(status.problem().find(path) != std::string::npos, "A refusal names the file; this does not: " + status.problem());
  HoldsOneMoment(*bundle);
}

void CheckApply(const std::string& path) {
  const auto bundle = Opened("apply", path);
  HoldsOneMoment(*bundle);
  for (int64_t u = 1; u <= 20; ++u) {
    Refused(bundle.get(), Written(path, "apply", u + 1), "an update that does not follow");
    Refused(bundle.get(), Written(path, "another", u), "an update of another export");
    Good(bundle->Apply(Written(path, "apply", u)));
    Require(bundle->moment().update == u, "A bundle knows its update.");
    HoldsOneMoment(*bundle);
    Good(bundle->Apply(Written(path, "apply", u)));
    HoldsOneMoment(*bundle);
  }
  Refused(bundle.get(), path + "-none", "a file that is not there");
  Refused(bundle.get(), Written(path, "apply", 0), "a file of all weights");
}

void CheckDamage(const std::string& path) {
  const auto bundle = Opened("damage", path);
  const std::string right = FileOf(Changes("damage", 1)), place = path + "-1";
  for (size_t b = 0; b < right.size(); ++b) {
    std::string wrong = right;
    wrong[b] ^= static_cast<char>(1 << Below(8));
    for (const std::string& content : {wrong, right.substr(0, b)}) {
      Write(place, content);
      Refused(bundle.get(), place, "damage at byte " + std::to_string(b));
    }
  }
  Good(bundle->Apply(Written(path, "damage", 1)));
  HoldsOneMoment(*bundle);
}

void CheckOdd(const std::string& path) {
  int64_t taken = 0;
  for (int round = 0; round < 2'000; ++round) {
    const auto bundle = Opened("odd", path);
    std::vector<std::string> records = Changes("odd", 1);
    for (int64_t changes = 1 + Below(2); changes > 0; --changes) Spoil(&records);
    if (Below(2)) records.back() = Recorded(RecordKind::kEnd, 0, 0, std::ssize(records) - 1);
    Write(path + "-1", FileOf(records));
    const Status status = bundle->Apply(path + "-1");
    taken += status.ok();
    Require((bundle->moment().update == 1) == status.ok(), "An update was taken, or it was not.");
    if (!status.ok()) HoldsOneMoment(*bundle);
  }
  Require(taken < 1'000, "Most of these files are refused.");
}

void CheckThreads(const std::string& path) {
  const auto bundle = Opened("threads", path);
  std::atomic<bool> ends = false;
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      while (!ends) {
        std::shared_lock inside(bundle->gate());
        HoldsOneMoment(*bundle);
      }
    });
  }
  std::vector<std::thread> writers;  // two users of one bundle see the same files
  for (int64_t u = 1; u <= 20; ++u) Written(path, "threads", u);
  for (int t = 0; t < 2; ++t) {
    writers.emplace_back([&] {
      for (int64_t u = 1; u <= 20; ++u) Good(bundle->Apply(path + "-" + std::to_string(u)));
    });
  }
  for (std::thread& writer : writers) writer.join();
  ends = true;
  for (std::thread& reader : readers) reader.join();
  Require(bundle->moment().update == 20, "All updates came.");
}

void CheckMemory(const std::string& path) {
  int64_t refused = 0;
  const std::string place = Written(path, "memory", 1);
  for (int64_t allocation = 1;; ++allocation) {
    const auto bundle = Opened("memory", path);
    engine::may_fail = true;
    engine::fail_in = allocation;
    const Status status = bundle->Apply(place);
    const bool failed = engine::fail_in <= 0;
    engine::fail_in = 0;
    engine::may_fail = false;
    HoldsOneMoment(*bundle);
    if (status.ok()) {
      if (!failed) break;
      continue;
    }
    ++refused;
    Good(bundle->Apply(place));
    HoldsOneMoment(*bundle);
  }
  Require(refused > 20, "Allocations fail here.");
}

}  // namespace
}  // namespace ctrlab::check

int main(int count, char** words) {
  using namespace ctrlab::check;
  return Main(
      count, words,
      {{"apply", CheckApply}, {"damage", CheckDamage}, {"odd", CheckOdd}, {"threads", CheckThreads}, {"memory", CheckMemory}});
}
