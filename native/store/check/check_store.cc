// Checks the store against std::map, under sanitizers and with injected faults.
//
//   check_store <what> <folder> <seed>    exit code 0 and "passed <what> <seed>"; or 1 and a sentence on stderr
//
// <what>: random      operations with repeated reopening, for both kinds of compaction and both kinds of disk access
//         kill        a writing process is killed at a random moment; its files hold the state after some operation
//         power       the same with a loss of power: any part of what was not synced may be on disk
//         damage      every byte of a file is changed, and the file is cut to every length
//         full        a disk that is full, then has room again
//         again       a failed compaction is tried again, and the process is killed
//         together    readers, writers and snapshots during compaction
//         refused     single syncs and waits that the system refuses
//         memory      each allocation fails in turn, in the caller's thread and in the store's
//         held        the memory that the store reports
//         scratch     the stores of a tier
//         relieved    a writer during a compaction that is stuck
//         unsealed    a disk that syncs nothing
//         fork        a process that forks: its child is refused, writes nothing, keeps no lock
//         forked-snapshot   the same while a snapshot holds files whose names were removed
//         close       a store that is closed while other threads use it
//         burst       a writer that is faster than compaction
//         odd         invalid folders and files

#include "check_store.h"

#include "check_store_calls.h"
#include "check_store_faults.h"
#include "check_store_memory.h"
#include "check_store_power.h"
#include "check_store_process.h"
#include "check_store_scratch.h"

namespace {

using namespace ctrlab;
using namespace ctrlab::embedding;
using namespace ctrlab::check::store;

void CheckRandom(const std::string& folder) {
  for (const Compaction compaction : {Compaction::kSync, Compaction::kAsync}) {
    for (const bool direct : {false, true}) {
      fs::remove_all(folder);
      StoreOptions options = Options(folder);
      options.compaction = compaction;
      options.direct = direct;
      auto store = Opened(options);
      Model model;
      int64_t compactions = 0;
      for (int step = 0; step < 1500; ++step) {
        const int64_t what = Below(100), count = 1 + Below(30);
        std::vector<int64_t> keys;
        std::vector<Row> rows;
        for (int64_t i = 0; i < count; ++i) keys.push_back(RandomKey()), rows.push_back(RandomRow(rng()));
        if (what < 55) {
          Good(store->Put(keys.data(), rows.data(), count));
          for (int64_t i = 0; i < count; ++i) model[keys[i]] = rows[i];
        } else if (what < 80) {
          Good(store->Erase(keys.data(), count));
          for (const int64_t key : keys) model.erase(key);
        } else if (what < 90) {
          SameByGet(*store, model);
        } else if (what < 94) {
          Good(store->Flush());
        } else if (what < 95) {
          Good(store->Compact());
        } else if (what < 97) {
          Require(Content(*store) == model, "A snapshot holds what is there.");
          Model odd = model;
          std::erase_if(odd, [](const auto& row) { return row.first % 2 == 0; });
          Require(Content(*store, [](int64_t key) { return key % 2 != 0; }) == odd, "Or what of that is wanted.");
        } else {
          compactions += store->Stats().compactions;
          store.reset();
          store = Opened(options);
          Require(store->Warnings().empty(), "Nothing to warn of after a proper end.");
        }
        const StoreStats stats = store->Stats();
        Require(stats.live == std::ssize(model), "As many rows as keys: " + std::to_string(stats.live));
      }
      Require(Content(*store) == model, "A snapshot holds what is there.");
      Good(store->Compact());
      SameByGet(*store, model);
      const StoreStats stats = store->Stats();
      // A tombstone stays if another segment's filter has a false positive for its key (one in a hundred), and commits stay.
      Require(stats.total <= stats.live + 60, "Compaction leaves no garbage: " + std::to_string(stats.total - stats.live));
      Require(compactions > 5, "Compaction happened: " + std::to_string(compactions));
    }
  }
}

// The nth operation of the writer in the kill test.
struct Operation {
  int64_t key;
  bool erase;
  Row row;

  explicit Operation(uint64_t n) {
    rng.seed(n * 77 + 5);
    key = RandomKey(), erase = Below(4) == 0, row = RandomRow(rng());
  }
  void Do(Model* model) const {
    if (erase) {
      model->erase(key);
    } else {
      (*model)[key] = row;
    }
  }
};

[[noreturn]] void WriteUntilKilled(const StoreOptions& options, uint64_t from, int report) {
  auto store = Opened(options);
  std::mt19937_64 pauses(from);
  for (uint64_t n = from;; ++n) {
    const Operation operation(n);
    Good(operation.erase ? store->Erase(&operation.key, 1) : store->Put(&operation.key, &operation.row, 1));
    if (pauses() % 50 != 0) continue;
    Good(store->Flush());
    const uint64_t done = n + 1;
    if (write(report, &done, sizeof done) != sizeof done) std::_Exit(3);
  }
}

void CheckKill(const std::string& folder) {
  fs::remove_all(folder);
  std::mt19937_64 moments(rng());
  Model committed;  // the content after the first `from` operations
  uint64_t from = 0;
  for (int life = 0; life < 4; ++life) {
    StoreOptions options = Options(folder);
    options.compaction = life % 2 ? Compaction::kAsync : Compaction::kSync;
    options.direct = moments() % 2;
    int report[2];
    Require(pipe(report) == 0, "A pipe can be made.");
    const pid_t writer = fork();
    if (writer == 0) WriteUntilKilled(options, from, report[1]);
    close(report[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(20'000 + moments() % 300'000));
    kill(writer, SIGKILL);
    int status;
    waitpid(writer, &status, 0);
    Require(WIFSIGNALED(status), "The writer went on until it was killed.");
    uint64_t flushed = from, done;
    while (read(report[0], &done, sizeof done) == sizeof done) flushed = done;
    close(report[0]);

    auto store = Opened(options);
    const Model content = Content(*store);
    for (; from < flushed; ++from) Operation(from).Do(&committed);
    uint64_t n = from;
    for (; committed != content; ++n) {
      if (n > from + 100'000) Fail("What is there after a kill is no state after the last flush.");
      if (n > from + 2'000) break;
      Operation(n).Do(&committed);
    }
    Require(committed == content, "What is there after a kill is the state after some operation since the last flush.");
    from = n;
    rng.seed(n);
    SameByGet(*store, content);
  }
}

void CheckTogether(const std::string& folder) {
  for (const bool direct : {false, true}) {
    fs::remove_all(folder);
    StoreOptions options = Options(folder);
    options.compaction = Compaction::kAsync;
    options.segment_bytes = 100'000;
    options.direct = direct;
    auto store = Opened(options);
    constexpr int64_t kKeys = 2000;
    // Key k's row holds a number that only increases.
    auto row_of = [](int64_t key, int64_t version) {
      Row row{};
      std::memcpy(row.data(), &key, 8), std::memcpy(row.data() + 8, &version, 8);
      return row;
    };
    std::atomic<bool> stop = false;
    auto version_of = [](int64_t key, const Row& row) {
      int64_t of, version;
      std::memcpy(&of, row.data(), 8), std::memcpy(&version, row.data() + 8, 8);
      Require(of == key, "A row belongs to its key.");
      return version;
    };
    auto read = [&](unsigned seed) {
      std::mt19937_64 random(seed);
      std::vector<int64_t> seen(kKeys, -1), keys(64);
      std::vector<Row> rows(64);
      std::vector<uint8_t> found(64);
      while (!stop) {
        for (int64_t& key : keys) key = static_cast<int64_t>(random() % kKeys);
        Good(store->Get(keys.data(), 64, rows.data(), found.data(), kTwoThreads));
        for (int i = 0; i < 64; ++i) {
          if (!found[i]) continue;
          const int64_t version = version_of(keys[i], rows[i]);
          Require(version >= seen[keys[i]], "A later read sees no older row.");
          seen[keys[i]] = version;
        }
      }
    };
    auto snapshots = [&] {
      while (!stop) {
        std::unique_ptr<StoreSnapshot> snapshot;
        Good(store->Snapshot(&snapshot));
        int64_t keys[100], count, low = -1, high = -1;
        Row rows[100];
        do {
          Good(snapshot->Next(100, keys, rows, &count));
          for (int64_t i = 0; i < count; ++i) {
            const int64_t version = version_of(keys[i], rows[i]);
            if (low < 0 || version < low) low = version;
            high = std::max(high, version);
          }
        } while (count > 0);
        Require(high - low <= 1, "A snapshot is of one moment: " + std::to_string(low) + " and " + std::to_string(high));
        store->Stats();
      }
    };
    std::thread first(read, 1), second(read, 2), third(snapshots);
    for (int64_t version = 0; version < 25 || store->Stats().compactions == 0; ++version) {
      for (int64_t key = 0; key < kKeys; ++key) {
        const Row row = row_of(key, version);
        Good(store->Put(&key, &row, 1));
      }
      if (version % 3 == 0) Good(store->Flush());
    }
    stop = true;
    first.join(), second.join(), third.join();
    const StoreStats stats = store->Stats();
    Require(stats.compactions > 0, "Compaction ran beside the readers.");
    Require(stats.write_amplification() <= 3, "At most 3 bytes written for each of the users'.");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::map<std::string, void (*)(const std::string&)> checks = {
      {"random", CheckRandom},
      {"kill", CheckKill},
      {"power", CheckPower},
      {"damage", CheckDamage},
      {"full", CheckFull},
      {"odd", CheckOdd},
      {"again", CheckAgain},
      {"together", CheckTogether},
      {"refused", CheckRefused},
      {"memory", CheckMemory},
      {"burst", CheckBurst},
      {"fork", CheckFork},
      {"forked-snapshot", CheckForkedSnapshot},
      {"close", CheckClose},
      {"unsealed", CheckUnsealed},
      {"held", CheckHeld},
      {"scratch", CheckScratch},
      {"relieved", CheckRelieved},
  };
  const auto check = checks.find(argv[1]);
  if (check == checks.end()) return 2;
  rng.seed(std::strtoull(argv[3], nullptr, 10));
  check->second(argv[2]);
  std::printf("passed %s %s\n", argv[1], argv[3]);
  return 0;
}
