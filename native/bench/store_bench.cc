// Compares our store with LevelDB and RocksDB: random reads and updates, 80 % of them on 20 % of the keys, without the page
// cache.
//
//   store_bench <folder> <keys> <row bytes> <batch> <rounds> <seconds> [store ...]     one JSON object on stdout
//
// Each store (ctrlab, rocksdb, leveldb) is filled once. In each round it is opened and closed again, one store after the other.
// Updates of half as many rows as keys first make enough garbage for compaction. Then come three phases: "mixed", batches of
// reads and of updates alternately, for `seconds`; "compacting", batches of reads while another thread compacts the whole store;
// "read", batches of reads only, without background work. The caller uses one thread; stores may start their own. To be fair:
//
//   memory       each peer gets a block cache of as many bytes as ctrlab holds in memory, plus Bloom filters of 10 bits per key
//                and a write buffer of 64 MiB.
//   page cache   ctrlab and RocksDB read and write with O_DIRECT. LevelDB has no such option: it gets an Env that reads tables
//                for Get with O_DIRECT, and for its compaction thread through the page cache, with the system's read-ahead.
//   durability   no store syncs within a phase. RocksDB writes no log (then both have on disk what was flushed); LevelDB can't
//                work without one.
//   batches      RocksDB: MultiGet (async_io) and a WriteBatch; LevelDB: a loop of Gets and a WriteBatch.
//
// The bound is the disk: random reads of 4096 bytes in one of ctrlab's files, 128 in flight, measured between the phases.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "disk_speed.h"
#include "store_peers.h"

namespace {

using namespace ctrlab::bench;
using ctrlab::DiskSpeed;
using ctrlab::MeasureDisk;

// The key with number i; consecutive numbers have scattered keys.
int64_t KeyOf(int64_t i) { return static_cast<int64_t>(static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15); }

class Draws {
 public:
  Draws(const Sizes& sizes, uint64_t seed) : sizes_(sizes), random_(seed) {}
  // 80 % of them are among the first 20 % of the numbers.
  void Batch(std::vector<int64_t>* keys) {
    keys->resize(sizes_.batch);
    const int64_t hot = std::max<int64_t>(1, sizes_.keys / 5);
    for (int64_t& key : *keys) key = KeyOf(random_() % 5 ? Below(hot) : hot + Below(sizes_.keys - hot));
  }
  void Rows(std::string* rows) {
    rows->resize(sizes_.batch * sizes_.row_bytes);
    for (size_t i = 0; i + 8 <= rows->size(); i += 8) {
      const uint64_t word = random_();
      std::memcpy(rows->data() + i, &word, 8);
    }
  }

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  const Sizes& sizes_;
  std::mt19937_64 random_;
};

struct Latency {
  double at, seconds;  // start and duration of a batch; start relative to the phase
};

void Fill(Peer& store, const Sizes& sizes) {
  Draws draws(sizes, 1);
  std::vector<int64_t> order(sizes.keys), keys;
  for (int64_t i = 0; i < sizes.keys; ++i) order[i] = KeyOf(i);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(2));
  std::string rows;
  for (int64_t first = 0; first < sizes.keys; first += sizes.batch) {
    keys.assign(order.begin() + first, order.begin() + std::min(first + sizes.batch, sizes.keys));
    draws.Rows(&rows);
    store.Put(keys, rows);
  }
  store.Finish();
}

struct Phase {
  double rows_per_second;
  std::vector<Latency> reads, updates;
};

// Repeats while `more(seconds since the start)`.
template <class More>
Phase Run(Peer& store, const Sizes& sizes, bool mixed, uint64_t seed, const More& more) {
  Draws draws(sizes, seed);
  std::vector<int64_t> keys;
  std::string rows(sizes.batch * sizes.row_bytes, 0), updates;
  Phase phase{};
  int64_t done = 0;
  double busy = 0;
  for (const auto start = Clock::now(); more(Seconds(start));) {
    draws.Batch(&keys);
    const auto read = Clock::now();
    store.Get(keys, &rows);
    phase.reads.push_back({Seconds(start), Seconds(read)});
    busy += phase.reads.back().seconds, done += sizes.batch;
    if (!mixed) continue;
    draws.Batch(&keys);
    draws.Rows(&updates);
    const auto update = Clock::now();
    store.Put(keys, updates);
    phase.updates.push_back({Seconds(start), Seconds(update)});
    busy += phase.updates.back().seconds, done += sizes.batch;
  }
  phase.rows_per_second = static_cast<double>(done) / busy;
  return phase;
}

void Age(Peer& store, const Sizes& sizes, uint64_t seed) {
  Draws draws(sizes, seed);
  std::vector<int64_t> keys;
  std::string rows;
  for (int64_t done = 0; done < sizes.keys / 2; done += sizes.batch) {
    draws.Batch(&keys);
    draws.Rows(&rows);
    store.Put(keys, rows);
  }
}

Phase ReadWhileCompacting(Peer& store, const Sizes& sizes, uint64_t seed) {
  std::atomic<bool> ended = false;
  std::thread compaction([&] {
    store.CompactAll();
    ended = true;
  });
  Phase phase = Run(store, sizes, false, seed, [&](double) { return !ended; });
  compaction.join();
  return phase;
}

void Print(const char* name, const std::vector<Latency>& latencies) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < latencies.size(); ++i) {
    std::printf("%s[%.4f, %.6g]", i ? ", " : "", latencies[i].at, latencies[i].seconds);
  }
  std::printf("]");
}

void Print(const char* name, const Phase& phase) {
  std::printf("\"%s\": {\"rows_per_second\": %.6g, ", name, phase.rows_per_second);
  Print("reads", phase.reads), std::printf(", "), Print("updates", phase.updates), std::printf("}");
}

std::string LargestFile(const std::string& folder) {
  std::string largest;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (largest.empty() || file.file_size() > std::filesystem::file_size(largest)) largest = file.path();
  }
  return largest;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  Sizes sizes{argv[1], std::atoll(argv[2]), std::atoll(argv[3]), std::atoll(argv[4]), std::atoll(argv[5]), std::atof(argv[6])};
  std::vector<std::string> names(argv + 7, argv + argc);
  std::filesystem::remove_all(sizes.folder);
  std::filesystem::create_directories(sizes.folder);
  {
    Ours first(sizes);
    Fill(first, sizes);
    sizes.memory = first.memory_bytes();
  }
  for (const std::string& name : names) {
    if (name != "ctrlab") Fill(*OpenStore(name, sizes), sizes);
  }
  std::printf("{\"memory\": %ld, \"rounds\": [", long(sizes.memory));
  for (int64_t round = 0; round < sizes.rounds; ++round) {
    std::printf("%s{", round ? ",\n" : "");
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string& name = names[(i + round) % names.size()];
      const auto store = OpenStore(name, sizes);
      const uint64_t seed = 100 * static_cast<uint64_t>(round);
      const auto for_long = [&](double passed) { return passed < sizes.seconds; };
      Age(*store, sizes, seed + 10);
      std::printf("\"%s\": {", name.c_str());
      Print("mixed", Run(*store, sizes, true, seed + 11, for_long)), std::printf(", ");
      const std::string facts = store->Facts();  // written bytes per user byte depend on compaction alone
      Print("compacting", ReadWhileCompacting(*store, sizes, seed + 12)), std::printf(", ");
      store->Finish();
      Print("read", Run(*store, sizes, false, seed + 13, for_long));
      std::printf(", %s}, ", facts.c_str());
    }
    const DiskSpeed disk = MeasureDisk(LargestFile(sizes.folder + "/ctrlab"), 0.5);
    std::printf("\"disk\": {\"iops\": %.6g, \"iops_alone\": %.6g}}", disk.reads_per_second, disk.reads_per_second_alone);
  }
  std::printf("]}\n");
  std::filesystem::remove_all(sizes.folder);
  return 0;
}
