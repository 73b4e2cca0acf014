// The store against std::map, under sanitizers and what else can happen to it.
//
//   check_store <what> <folder> <seed>    exit code 0 and "passed <what> <seed>"; or 1 and a sentence on stderr
//
// <what>: random      operations, reopened again and again, on both kinds of compaction and both ways to the disk
//         kill        a process that writes is killed at a random moment; what it left is the state after some operation
//         damage      each byte of a file changed, and each length that it can be cut to
//         full        a disk that takes no more, then does again
//         together    readers, writers and snapshots beside compaction
//         odd         folders and files that are not as they should be

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "embedding/segment_format.h"
#include "embedding/segment_store.h"
#include "embedding/store_index.h"

namespace {

using namespace ctrlab;
using namespace ctrlab::embedding;
namespace fs = std::filesystem;

constexpr int64_t kRowBytes = 20;
using Row = std::array<char, kRowBytes>;
using Model = std::map<int64_t, Row>;
std::mt19937_64 rng;

[[noreturn]] void Fail(const std::string& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::_Exit(1);
}

void Require(bool right, const std::string& rule) {
  if (!right) Fail(rule);
}

void Good(const Status& status) {
  if (!status.ok()) Fail("Refused: " + status.problem());
}

// One sentence that holds what it should.
void Refused(const Status& status, const std::string& part) {
  if (status.ok()) Fail("Not refused: " + part);
  if (status.problem().find(part) == std::string::npos) Fail("\"" + part + "\" is not in: " + status.problem());
  if (status.problem().back() != '.' || status.problem().find('\n') != std::string::npos) Fail("No sentence: " + status.problem());
}

const ParallelFor kTwoThreads{nullptr, [](void*, int64_t n, int64_t, void (*body)(void*, int64_t, int64_t), void* context) {
                                std::thread other([&] { if (n / 2 > 0) body(context, 0, n / 2); });
                                body(context, n / 2, n);
                                other.join();
                              }};

const ParallelFor kAlone{nullptr, [](void*, int64_t n, int64_t, void (*body)(void*, int64_t, int64_t), void* c) { body(c, 0, n); }};

int64_t Below(int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); }

// Few keys, so that they are overwritten often; the extremes among them.
int64_t RandomKey() {
  switch (Below(40)) {
    case 0: return -1;
    case 1: return std::numeric_limits<int64_t>::min();
    case 2: return std::numeric_limits<int64_t>::max();
    case 3: return -2;
    default: return Below(300) * 0x1234567;
  }
}

Row RandomRow(uint64_t number) {
  Row row;
  for (char& c : row) c = static_cast<char>(number = number * 6364136223846793005 + 1442695040888963407, number >> 56);
  return row;
}

StoreOptions Options(const std::string& folder) {
  StoreOptions options;
  options.path = folder;
  options.row_bytes = kRowBytes;
  options.segment_bytes = 6000;
  options.write_buffer = 4096;
  options.compaction = Compaction::kSync;
  return options;
}

std::unique_ptr<SegmentStore> Opened(const StoreOptions& options) {
  std::unique_ptr<SegmentStore> store;
  Good(SegmentStore::Open(options, &store));
  return store;
}

// The whole store, by a snapshot.
Model Content(SegmentStore& store) {
  std::unique_ptr<StoreSnapshot> snapshot;
  Good(store.Snapshot(&snapshot));
  Model content;
  int64_t keys[37], count;
  Row rows[37];
  do {
    Good(snapshot->Next(37, keys, rows, &count));
    for (int64_t i = 0; i < count; ++i) Require(content.emplace(keys[i], rows[i]).second, "A snapshot holds each key once.");
  } while (count > 0);
  Require(std::ssize(content) == snapshot->size(), "A snapshot's size is the number of its rows.");
  return content;
}

void SameByGet(SegmentStore& store, const Model& model) {
  std::vector<int64_t> keys;
  for (int i = 0; i < 200; ++i) keys.push_back(RandomKey());
  for (const auto& [key, row] : model) keys.push_back(key);
  std::vector<Row> rows(keys.size(), Row{});
  std::vector<uint8_t> found(keys.size());
  Good(store.Get(keys.data(), std::ssize(keys), rows.data(), found.data(), kTwoThreads));
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto expected = model.find(keys[i]);
    Require(found[i] == (expected != model.end()), "Get finds what is there: key " + std::to_string(keys[i]));
    Require(rows[i] == (found[i] ? expected->second : Row{}), "Get gives the last row: key " + std::to_string(keys[i]));
  }
}

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
      // Tombstones stay where the filter of another segment takes a key for one of its own: one in a hundred, and commits stay.
      Require(stats.total <= stats.live + 60, "Compaction leaves no garbage: " + std::to_string(stats.total - stats.live));
      Require(compactions > 5, "Compaction happened: " + std::to_string(compactions));
    }
  }
}

// What the writer of the kill test does as its nth operation.
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
  Model committed;  // after the first `from` operations
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

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Opens a folder whose one file holds `bytes`: refused with a sentence, or every row that it gives is one that was put, and
// none is missing without a warning.
void OpenDamaged(const std::string& folder, const std::string& name, const std::string& bytes, const Model& model, const std::string& what) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  Write(folder + "/" + name, bytes);
  std::unique_ptr<SegmentStore> store;
  Status status = SegmentStore::Open(Options(folder), &store);
  if (!status.ok()) return Refused(status, folder);
  bool told = !store->Warnings().empty();
  for (const auto& [key, row] : model) {
    Row got;
    uint8_t found;
    status = store->Get(&key, 1, &got, &found, kAlone);
    if (!status.ok()) Refused(status, name + " at byte"), told = true;
    if (!found && !told) Fail("A row is gone without a word: " + what);
    if (found && got != row) Fail("A row is wrong: " + what);
  }
}

void CheckDamage(const std::string& folder) {
  for (const bool sealed : {false, true}) {
    const std::string made = folder + "/made", broken = folder + "/broken";
    fs::remove_all(made);
    Model model;
    auto store = Opened(Options(made));
    for (int64_t key = 0; key < 12; ++key) {
      const Row row = RandomRow(rng());
      Good(store->Put(&key, &row, 1));
      model[key] = row;
      if (key % 5 == 4) Good(store->Flush());
    }
    Good(store->Flush());
    if (sealed) store.reset();
    const std::string name = "0000000001.seg", bytes = Bytes(made + "/" + name);
    Require(!bytes.empty(), "The segment is there.");
    OpenDamaged(broken, name, bytes, model, "an undamaged file");
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::string wrong = bytes;
      wrong[i] = static_cast<char>(wrong[i] ^ 1 << Below(8));
      OpenDamaged(broken, name, wrong, model, "a bit at byte " + std::to_string(i) + " of " + std::to_string(bytes.size()));
    }
    const Model none;  // an unsealed file that is shorter is one whose end was never written
    for (size_t cut = 0; cut < bytes.size(); ++cut) {
      OpenDamaged(broken, name, bytes.substr(0, cut), sealed ? model : none, "cut to " + std::to_string(cut));
    }
  }
}

void LimitFiles(rlim_t bytes) {
  rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  Require(setrlimit(RLIMIT_FSIZE, &limit) == 0, "A file's size can be limited.");
}

// A limit on the size of files stands for a full disk: both refuse a write and both may go away.
void CheckFull(const std::string& folder) {
  signal(SIGXFSZ, SIG_IGN);
  for (const Compaction compaction : {Compaction::kSync, Compaction::kAsync}) {
    fs::remove_all(folder);
    StoreOptions options = Options(folder);
    options.segment_bytes = 30'000;
    options.compaction = compaction;
    auto store = Opened(options);
    Model model;
    int refused = 0;
    for (int step = 0; step < 4000; ++step) {
      if (step % 100 == 50) LimitFiles(static_cast<rlim_t>(Below(4) * 5000));
      if (step % 100 == 0) LimitFiles(RLIM_INFINITY);
      const int64_t key = RandomKey();
      const Row row = RandomRow(rng());
      const bool put = Below(20) > 0;
      const Status status = put ? store->Put(&key, &row, 1) : store->Flush();
      if (!status.ok()) Refused(status, folder), ++refused;
      Row got;
      uint8_t found;
      Good(store->Get(&key, 1, &got, &found, kTwoThreads));
      const auto before = model.find(key);
      const bool taken = put && found && got == row;  // what was refused may still have been taken
      Require(taken || !put || !status.ok(), "Get gives what Put took.");
      Require(taken || (found ? before != model.end() && got == before->second : before == model.end()), "A refused Put changes nothing.");
      if (taken) model[key] = row;
    }
    LimitFiles(RLIM_INFINITY);
    Require(refused > 100, "The disk was full now and then: " + std::to_string(refused));
    SameByGet(*store, model);
    Good(store->Flush());
    store.reset();
    store = Opened(options);
    Require(Content(*store) == model, "Nothing is lost on a full disk.");
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
    // Key k's row holds a number that only goes up.
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
    for (int64_t version = 0; version < 25; ++version) {
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

void CheckOdd(const std::string& folder) {
  fs::remove_all(folder);
  const int64_t key = 7;
  const Row row = RandomRow(1);
  StoreOptions options = Options(folder + "/store");
  auto store = Opened(options);
  Good(store->Put(&key, &row, 1));
  std::unique_ptr<SegmentStore> second;
  Refused(SegmentStore::Open(options, &second), "another one has that in " + options.path);
  store.reset();

  auto with = [&](auto change) {
    StoreOptions changed = options;
    change(&changed);
    return SegmentStore::Open(changed, &second);
  };
  Refused(with([](StoreOptions* o) { o->row_bytes = 24; }), "has rows of 20 bytes, 24 were asked for");
  Refused(with([](StoreOptions* o) { o->row_bytes = 0; }), "row_bytes must be in");
  Refused(with([](StoreOptions* o) { o->segment_bytes = 10; }), "segment_bytes must be in");
  Refused(with([](StoreOptions* o) { o->write_buffer = 0; }), "write_buffer must be in");
  Write(folder + "/file", "");
  Refused(with([&](StoreOptions* o) { o->path = folder + "/file"; }), "Can't make the store's folder");
  Refused(with([&](StoreOptions* o) { o->path = folder + "/file/below"; }), "Can't make the store's folder");

  const std::string path = options.path + "/0000000002.seg";
  Write(path, std::string(5000, 'x'));
  Refused(SegmentStore::Open(options, &second), path + " is not one");
  SegmentHeader newer;
  newer.version = 2, newer.row_bytes = kRowBytes, newer.number = 2, newer.crc = newer.Crc();
  Write(path, std::string(reinterpret_cast<char*>(&newer), sizeof newer));
  Refused(SegmentStore::Open(options, &second), "a newer ctrlab wrote it");
  fs::remove(path);
  fs::copy(options.path + "/0000000001.seg", path);
  Refused(SegmentStore::Open(options, &second), "A segment's name must be its number");
  fs::remove(path);

  store = Opened(options);
  SameByGet(*store, {{key, row}});
  Good(store->Put(&key, &row, 1));
  fs::remove_all(options.path);
  Good(store->Put(&key, &row, 1));
  Refused(store->Flush(), "no longer in its folder");
  SameByGet(*store, {{key, row}});

  const auto portable = [](const std::string& text) {
    uint32_t crc = ~0u;
    for (const char c : text) crc = crc32c::PortableByte(crc, static_cast<uint8_t>(c));
    return ~crc;
  };
  Require(Crc32c("123456789", 9) == 0xe3069283 && portable("123456789") == 0xe3069283, "CRC-32C of its test string.");
  for (int i = 0; i < 1000; ++i) {
    const uint64_t word = rng();
    const auto crc = static_cast<uint32_t>(rng());
    Require(crc32c::Word(crc, word) == crc32c::PortableWord(crc, word), "CRC-32C of words, by the machine and by tables.");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::map<std::string, void (*)(const std::string&)> checks = {{"random", CheckRandom},     {"kill", CheckKill}, {"damage", CheckDamage},
                                                                      {"full", CheckFull},         {"odd", CheckOdd},
                                                                      {"together", CheckTogether}};
  const auto check = checks.find(argv[1]);
  if (check == checks.end()) return 2;
  rng.seed(std::strtoull(argv[3], nullptr, 10));
  check->second(argv[2]);
  std::printf("passed %s %s\n", argv[1], argv[3]);
  return 0;
}
