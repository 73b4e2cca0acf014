// The store beside LevelDB and RocksDB: random reads and updates of which 80 % go to 20 % of the keys, all past the page cache.
//
//   store_bench <folder> <keys> <row bytes> <batch> <rounds> <seconds> [store ...]     one JSON object on stdout
//
// Each store (ctrlab, rocksdb, leveldb) is filled, then opened and closed again in each round, one after the other. There half as
// many updates as keys bring it to where garbage is collected; then come three phases: "mixed", a batch of reads, a batch of updates,
// and so on, for so many seconds; "compacting", batches of reads while another thread makes the store compact all it has; "read",
// batches of reads only, while nothing else goes on. All run on one thread of the caller's and the threads they start themselves. What was done to be fair:
//
//   memory       ctrlab holds its index in memory; each peer gets a block cache of as many bytes, and Bloom filters of 10 bits a key
//                and a write buffer of 64 MiB beside it.
//   page cache   ctrlab and RocksDB read and write with O_DIRECT. LevelDB has no such option: it gets an Env that reads tables for
//                Get with O_DIRECT, and for its compaction thread through the page cache, with the system's read-ahead.
//   durability   no store syncs within a phase. RocksDB writes no log (what it then has on the disk is what ctrlab has: whatever was
//                flushed); LevelDB can't do without one.
//   batches      RocksDB: MultiGet (async_io) and a WriteBatch; LevelDB: a loop of Gets and a WriteBatch.
//
// The bound is the disk: random reads of 4096 bytes in a file of ctrlab's, 128 in flight, measured between the phases.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
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
#include "embedding/segment_store.h"

#if __has_include(<rocksdb/db.h>) && !defined(NO_ROCKSDB)
#define HAS_ROCKSDB
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#endif
#if __has_include(<leveldb/db.h>) && !defined(NO_LEVELDB)
#define HAS_LEVELDB
#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/write_batch.h>
#endif

namespace {

using namespace ctrlab;
using namespace ctrlab::embedding;
using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); }

[[noreturn]] void Stop(const std::string& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::exit(1);
}

struct Sizes {
  std::string folder;
  int64_t keys, row_bytes, batch, rounds;
  double seconds;
  int64_t memory = 0;  // bytes of a peer's block cache
};

class Peer {
 public:
  virtual ~Peer() = default;
  virtual void Get(const std::vector<int64_t>& keys, std::string* rows) = 0;  // every key is there
  virtual void Put(const std::vector<int64_t>& keys, const std::string& rows) = 0;
  virtual void Finish() = 0;  // what is in memory goes to the disk, compaction comes to rest
  virtual void CompactAll() = 0;
  virtual std::string Facts() = 0;
};

const ParallelFor kAlone{nullptr, [](void*, int64_t n, int64_t, void (*body)(void*, int64_t, int64_t), void* c) { body(c, 0, n); }};

class Ours final : public Peer {
 public:
  explicit Ours(const Sizes& sizes) {
    StoreOptions options;
    options.path = sizes.folder + "/ctrlab";
    options.row_bytes = sizes.row_bytes;
    options.segment_bytes = int64_t{16} << 20;
    options.direct = true;
    Check(SegmentStore::Open(options, &store_));
  }
  void Get(const std::vector<int64_t>& keys, std::string* rows) override {
    found_.resize(keys.size());
    Check(store_->Get(keys.data(), std::ssize(keys), rows->data(), found_.data(), kAlone));
    if (std::find(found_.begin(), found_.end(), 0) != found_.end()) Stop("ctrlab lost a key.");
  }
  void Put(const std::vector<int64_t>& keys, const std::string& rows) override { Check(store_->Put(keys.data(), rows.data(), std::ssize(keys))); }
  void Finish() override {
    Check(store_->Flush());
    while (store_->Stats().compacting) usleep(1000);
  }
  void CompactAll() override { Check(store_->Compact()); }
  std::string Facts() override {
    const StoreStats stats = store_->Stats();
    char text[300];
    std::snprintf(text, sizeof text, "\"write_amplification\": %.4f, \"compactions\": %ld, \"index_bytes\": %ld, \"disk_bytes\": %ld, \"live\": %ld",
                  stats.write_amplification(), long(stats.compactions), long(stats.index_bytes), long(stats.disk_bytes), long(stats.live));
    return text;
  }
  int64_t index_bytes() { return store_->Stats().index_bytes; }

 private:
  void Check(const Status& status) {
    if (!status.ok()) Stop(status.problem());
  }
  std::unique_ptr<SegmentStore> store_;
  std::vector<uint8_t> found_;
};

#ifdef HAS_ROCKSDB
class RocksDb final : public Peer {
 public:
  explicit RocksDb(const Sizes& sizes) : row_bytes_(sizes.row_bytes) {
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(sizes.memory);
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    rocksdb::Options options;
    options.create_if_missing = true;
    options.compression = rocksdb::kNoCompression;
    options.use_direct_reads = true;
    options.use_direct_io_for_flush_and_compaction = true;
    options.compaction_readahead_size = 2 << 20;
    options.max_background_jobs = 2;
    options.statistics = nullptr;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DB* db;
    Check(rocksdb::DB::Open(options, sizes.folder + "/rocksdb", &db));
    db_.reset(db);
    read_.async_io = true;
    write_.disableWAL = true;
  }
  void Get(const std::vector<int64_t>& keys, std::string* rows) override {
    slices_.clear();
    for (const int64_t& key : keys) slices_.emplace_back(reinterpret_cast<const char*>(&key), 8);
    values_.resize(keys.size()), statuses_.resize(keys.size());
    db_->MultiGet(read_, db_->DefaultColumnFamily(), keys.size(), slices_.data(), values_.data(), statuses_.data());
    for (size_t i = 0; i < keys.size(); ++i) {
      Check(statuses_[i]);
      std::memcpy(rows->data() + i * row_bytes_, values_[i].data(), row_bytes_);
      values_[i].Reset();
    }
  }
  void Put(const std::vector<int64_t>& keys, const std::string& rows) override {
    rocksdb::WriteBatch batch;
    for (size_t i = 0; i < keys.size(); ++i) {
      Check(batch.Put({reinterpret_cast<const char*>(&keys[i]), 8}, {rows.data() + i * row_bytes_, size_t(row_bytes_)}));
    }
    Check(db_->Write(write_, &batch));
  }
  void Finish() override {
    Check(db_->Flush({}));
    for (int quiet = 0; quiet < 20; quiet = Busy() ? 0 : quiet + 1) usleep(10'000);
  }
  void CompactAll() override {
    rocksdb::CompactRangeOptions all;
    all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    Check(db_->CompactRange(all, nullptr, nullptr));
  }
  std::string Facts() override { return "\"disk_bytes\": " + std::to_string(Number("rocksdb.total-sst-files-size")); }

 private:
  uint64_t Number(const char* name) {
    uint64_t value = 0;
    db_->GetIntProperty(name, &value);
    return value;
  }
  bool Busy() {
    return Number("rocksdb.num-running-compactions") + Number("rocksdb.num-running-flushes") + Number("rocksdb.compaction-pending") > 0;
  }
  void Check(const rocksdb::Status& status) {
    if (!status.ok()) Stop("RocksDB: " + status.ToString());
  }
  const int64_t row_bytes_;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::ReadOptions read_;
  rocksdb::WriteOptions write_;
  std::vector<rocksdb::Slice> slices_;
  std::vector<rocksdb::PinnableSlice> values_;
  std::vector<rocksdb::Status> statuses_;
};
#endif

#ifdef HAS_LEVELDB
thread_local bool in_background = false;

// LevelDB's own, but for tables: their reads go past the page cache, unless compaction asks.
class PastPageCache final : public leveldb::EnvWrapper {
 public:
  PastPageCache() : EnvWrapper(leveldb::Env::Default()) {}

  leveldb::Status NewRandomAccessFile(const std::string& path, leveldb::RandomAccessFile** file) override {
    const int direct = open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC), cached = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (direct < 0 || cached < 0) {
      if (direct >= 0) close(direct);
      if (cached >= 0) close(cached);
      return leveldb::Status::NotFound(path, std::strerror(errno));
    }
    *file = new File(direct, cached);
    return leveldb::Status::OK();
  }

  void Schedule(void (*function)(void*), void* argument) override {
    auto* work = new std::pair(function, argument);
    EnvWrapper::Schedule(
        [](void* packed) {
          std::unique_ptr<std::pair<void (*)(void*), void*>> work(static_cast<std::pair<void (*)(void*), void*>*>(packed));
          in_background = true;
          work->first(work->second);
        },
        work);
  }

 private:
  class File final : public leveldb::RandomAccessFile {
   public:
    File(int direct, int cached) : direct_(direct), cached_(cached) {}
    ~File() override { close(direct_), close(cached_); }
    leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result, char* scratch) const override {
      if (in_background) {
        const ssize_t got = pread(cached_, scratch, n, static_cast<off_t>(offset));
        *result = {scratch, static_cast<size_t>(std::max<ssize_t>(got, 0))};
        return got < 0 ? leveldb::Status::IOError("pread", std::strerror(errno)) : leveldb::Status::OK();
      }
      constexpr uint64_t kBlock = 4096;
      thread_local std::unique_ptr<char, decltype(&std::free)> buffer(nullptr, &std::free);
      thread_local size_t capacity = 0;
      const uint64_t begin = offset / kBlock * kBlock;
      const size_t bytes = (offset + n - begin + kBlock - 1) / kBlock * kBlock;
      if (bytes > capacity) buffer.reset(static_cast<char*>(std::aligned_alloc(kBlock, capacity = bytes)));
      const ssize_t got = pread(direct_, buffer.get(), bytes, static_cast<off_t>(begin));
      if (got < 0) return leveldb::Status::IOError("pread", std::strerror(errno));
      const size_t skip = offset - begin, there = static_cast<size_t>(got) > skip ? std::min(n, got - skip) : 0;
      std::memcpy(scratch, buffer.get() + skip, there);
      *result = {scratch, there};
      return leveldb::Status::OK();
    }

   private:
    const int direct_, cached_;
  };
};

class LevelDb final : public Peer {
 public:
  explicit LevelDb(const Sizes& sizes)
      : row_bytes_(sizes.row_bytes), cache_(leveldb::NewLRUCache(sizes.memory)), filter_(leveldb::NewBloomFilterPolicy(10)) {
    leveldb::Options options;
    options.env = &env_;
    options.create_if_missing = true;
    options.compression = leveldb::kNoCompression;
    options.block_cache = cache_.get();
    options.filter_policy = filter_.get();
    options.write_buffer_size = 64 << 20;
    options.max_file_size = 64 << 20;
    leveldb::DB* db;
    Check(leveldb::DB::Open(options, sizes.folder + "/leveldb", &db));
    db_.reset(db);
    read_.verify_checksums = true;  // as the others do
  }
  void Get(const std::vector<int64_t>& keys, std::string* rows) override {
    for (size_t i = 0; i < keys.size(); ++i) {
      Check(db_->Get(read_, {reinterpret_cast<const char*>(&keys[i]), 8}, &value_));
      std::memcpy(rows->data() + i * row_bytes_, value_.data(), row_bytes_);
    }
  }
  void Put(const std::vector<int64_t>& keys, const std::string& rows) override {
    leveldb::WriteBatch batch;
    for (size_t i = 0; i < keys.size(); ++i) {
      batch.Put({reinterpret_cast<const char*>(&keys[i]), 8}, {rows.data() + i * row_bytes_, size_t(row_bytes_)});
    }
    Check(db_->Write({}, &batch));
  }
  // It has no way to say that it rests: when the files of its tables have long been the same, it does.
  void Finish() override {
    std::string before, now;
    for (int same = 0; same < 10; same = before == now ? same + 1 : 0) {
      before = now;
      usleep(50'000);
      db_->GetProperty("leveldb.sstables", &now);
    }
  }
  void CompactAll() override { db_->CompactRange(nullptr, nullptr); }
  std::string Facts() override { return "\"disk_bytes\": 0"; }

 private:
  void Check(const leveldb::Status& status) {
    if (!status.ok()) Stop("LevelDB: " + status.ToString());
  }
  const int64_t row_bytes_;
  PastPageCache env_;
  std::unique_ptr<leveldb::Cache> cache_;
  std::unique_ptr<const leveldb::FilterPolicy> filter_;
  leveldb::ReadOptions read_;
  std::string value_;
  std::unique_ptr<leveldb::DB> db_;
};
#endif

std::unique_ptr<Peer> OpenStore(const std::string& name, const Sizes& sizes) {
  if (name == "ctrlab") return std::make_unique<Ours>(sizes);
#ifdef HAS_ROCKSDB
  if (name == "rocksdb") return std::make_unique<RocksDb>(sizes);
#endif
#ifdef HAS_LEVELDB
  if (name == "leveldb") return std::make_unique<LevelDb>(sizes);
#endif
  Stop("No store is called " + name + ", or its library was not there when this was compiled.");
}

// Key number i; numbers that lie together have keys that do not.
int64_t KeyOf(int64_t i) { return static_cast<int64_t>(static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15); }

class Draws {
 public:
  Draws(const Sizes& sizes, uint64_t seed) : sizes_(sizes), random_(seed) {}
  // 80 % of them from the first 20 % of the numbers.
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
  double at, seconds;  // of a batch; since the phase began
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

// As long as `more(seconds since the start)`.
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
    sizes.memory = first.index_bytes();
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
      const std::string facts = store->Facts();  // the bound on what is written is that of compaction by itself
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
