// The measured stores, behind one interface.

#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "store/segment_store.h"

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

namespace ctrlab::bench {

using namespace ctrlab::embedding;
using Clock = std::chrono::steady_clock;

inline double Seconds(Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); }

[[noreturn]] inline void Stop(const std::string& sentence) {
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
  virtual void Get(const std::vector<int64_t>& keys, std::string* rows) = 0;  // every key must exist
  virtual void Put(const std::vector<int64_t>& keys, const std::string& rows) = 0;
  virtual void Finish() = 0;  // flushes the memory to disk and waits for compaction
  virtual void CompactAll() = 0;
  virtual std::string Facts() = 0;
};

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
  void Put(const std::vector<int64_t>& keys, const std::string& rows) override {
    Check(store_->Put(keys.data(), rows.data(), std::ssize(keys)));
    Check(store_->Relieve());
  }
  void Finish() override {
    Check(store_->Flush());
    while (store_->Stats().compacting) usleep(1000);
  }
  void CompactAll() override { Check(store_->Compact()); }
  std::string Facts() override {
    const StoreStats stats = store_->Stats();
    char text[300];
    std::snprintf(
        text, sizeof text,
        "\"write_amplification\": %.4f, \"compactions\": %ld, \"memory_bytes\": %ld, \"disk_bytes\": %ld, \"live\": %ld",
        stats.write_amplification(), long(stats.compactions), long(stats.memory_bytes), long(stats.disk_bytes), long(stats.live));
    return text;
  }
  int64_t memory_bytes() { return store_->Stats().memory_bytes; }

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
    return Number("rocksdb.num-running-compactions") + Number("rocksdb.num-running-flushes") +
               Number("rocksdb.compaction-pending") >
           0;
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
inline thread_local bool in_background = false;

// LevelDB's own Env, except for table files: reads bypass the page cache, unless compaction asks.
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
    read_.verify_checksums = true;  // as the other stores do
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
  // LevelDB can't report that it is idle; the check is that its table files have not changed for long.
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

inline std::unique_ptr<Peer> OpenStore(const std::string& name, const Sizes& sizes) {
  if (name == "ctrlab") return std::make_unique<Ours>(sizes);
#ifdef HAS_ROCKSDB
  if (name == "rocksdb") return std::make_unique<RocksDb>(sizes);
#endif
#ifdef HAS_LEVELDB
  if (name == "leveldb") return std::make_unique<LevelDb>(sizes);
#endif
  Stop("No store is called " + name + ", or its library was not there when this was compiled.");
}

}  // namespace ctrlab::bench
