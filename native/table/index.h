// The hash index of a table: shards of buckets, each one cache line with four entries. A key's hash selects its bucket. If that
// is full, the entry goes to the next bucket with room, wrapping around at the shard's end.
//
// Readers take no lock. One writer per shard inserts while they read: an entry becomes valid with its `ref`, which is written
// last. A shard grows by a factor of 1.45 into a new array, which later readers use. The old array is kept until TakeOld, when no
// reader can be in it. The shards' sizes are staggered, so that they grow at different times and memory increases evenly.
//
// A removed key keeps an entry as long as a tier below may still hold its record; the entry marks that record as dead.

#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "store/hash.h"
#include "table/pages.h"

namespace ctrlab::embedding {

// The state of an entry's key. 0: the entry is empty. Below kCandidate: the key has row `ref - 1`. Otherwise the key came
// `ref - kCandidate` times without a row; 0 times means that it was removed.
using Ref = uint32_t;
constexpr Ref kCandidate = Ref{1} << 31;
constexpr Ref kGone = kCandidate;
constexpr Ref kElsewhere = kCandidate;  // result for one bucket: a full search is needed, which also finds removed keys
constexpr int64_t kMostCount = kCandidate - 1;
constexpr int64_t kMostRows = kCandidate - 1;

inline bool IsRow(Ref ref) { return ref - 1 < kCandidate - 1; }
// Whether the table holds a row or a count for an entry's key.
inline bool IsLive(Ref ref) { return ref != 0 && ref != kGone; }

struct Entry {
  std::atomic<int64_t> key;
  std::atomic<Ref> ref;
  uint32_t stamp;  // last step; the lowest bit tells whether the key is in the change log's list; used by writers only

  int64_t step() const { return stamp >> 1; }
  bool changed() const { return stamp & 1; }
};

struct alignas(64) Bucket {
  Entry entries[4];
};
static_assert(sizeof(Bucket) == 64);

class Index {
 public:
  static constexpr int kShardBits = 5;
  static constexpr int64_t kShards = 1 << kShardBits;

  Index();  // throws std::bad_alloc

  static int64_t ShardOf(uint64_t hash) { return static_cast<int64_t>(hash >> (64 - kShardBits)); }

  // For readers: prefetches a key's bucket; searches only that bucket; and the full search.
  const Bucket* Ask(uint64_t hash) const;

  static Ref FindIn(const Bucket& bucket, int64_t key) {
    const Entry* entry = EntryIn(bucket, key);
    if (entry) return entry->ref.load(std::memory_order_acquire);
    return IsFull(bucket) ? kElsewhere : 0;
  }

  Ref Find(int64_t key, uint64_t hash) const {
    const Entry* entry = FindEntry(key, hash);
    return entry ? entry->ref.load(std::memory_order_acquire) : 0;
  }

  // For the writer, or for the thread that works on this shard.
  Entry* FindEntry(int64_t key, uint64_t hash) const;

  // Makes room for `more` entries in a shard; returns whether it grew, which moves its entries. Throws std::bad_alloc.
  bool Reserve(int64_t shard, int64_t more);

  // Adds a key without an entry; there must be room. The entry stays in place until the shard grows or is sifted.
  Entry* Insert(int64_t key, uint64_t hash, Ref ref, uint32_t stamp);
  // Changes an entry's ref. Every change between removed and live must go through here, because it updates the counts.
  void SetRef(Entry* entry, uint64_t hash, Ref ref) {
    shards_[ShardOf(hash)].gone += (ref == kGone) - (entry->ref.load(std::memory_order_relaxed) == kGone);
    entry->ref.store(ref, std::memory_order_release);
  }

  // The key is no longer in the change log's list. Clears its mark in the current array, and in the one that Sift made for
  // Publish.
  void Unmark(int64_t key, uint64_t hash);

  // Calls visit(entry) for each live entry of a shard.
  template <class Visit>
  void ForEach(int64_t shard, const Visit& visit) const {
    ForEachEntry(shard, [&](Entry& entry) {
      if (IsLive(entry.ref.load(std::memory_order_relaxed))) visit(entry);
    });
  }

  // Makes a copy of a shard without some entries, with room for `entries`. Readers keep using the old one until Publish. Throws
  // std::bad_alloc.
  template <class Keep>
  void Sift(int64_t shard, int64_t entries, const Keep& keep);
  // Adds a removed key to what Sift has made. The key must not be live there.
  void AddGone(int64_t key, uint64_t hash);
  void Publish(int64_t shard);  // does nothing if Sift made none
  void Discard();               // drops what Sift made

  // Arrays that no reader can use any more; call it when there are no readers. Freeing them takes the system a while.
  struct Buckets;
  using Old = std::array<std::vector<std::unique_ptr<Buckets>>, kShards>;
  Old TakeOld();

  int64_t entries(int64_t shard) const { return shards_[shard].used; }
  int64_t gone(int64_t shard) const { return shards_[shard].gone; }  // number of entries of removed keys
  int64_t bytes() const;                                             // including arrays to be freed

 private:
  static const Entry* EntryIn(const Bucket& bucket, int64_t key) {
    unsigned equal = 0;  // without branches, because it can't be predicted which of the four it is
    for (unsigned e = 0; e < 4; ++e)
      equal |= static_cast<unsigned>(bucket.entries[e].key.load(std::memory_order_relaxed) == key) << e;
    if (!equal) return nullptr;
    // A concurrent insertion may have shown key 0 here; the key is valid once its ref is.
    const Entry& entry = bucket.entries[std::countr_zero(equal)];
    return entry.ref.load(std::memory_order_acquire) != 0 && entry.key.load(std::memory_order_relaxed) == key ? &entry : nullptr;
  }

  static bool IsFull(const Bucket& bucket) { return bucket.entries[3].ref.load(std::memory_order_acquire) != 0; }

  template <class Visit>
  void ForEachEntry(int64_t shard, const Visit& visit) const;

  struct alignas(64) One {
    std::atomic<Buckets*> now = nullptr;
    int64_t used = 0, gone = 0;
    std::unique_ptr<Buckets> held, next;
    int64_t next_used = 0, next_gone = 0;
    std::vector<std::unique_ptr<Buckets>> old;
  };

  static uint32_t BucketsFor(int64_t shard, int64_t entries);
  static void Prepare(One& one, uint32_t count);

  std::array<One, kShards> shards_;
};

// An array of a shard's buckets.
struct Index::Buckets {
  explicit Buckets(uint32_t count) : pages(int64_t{64} * count), data(pages.data<Bucket>()), count(count) {}
  uint32_t Home(uint64_t hash) const { return static_cast<uint32_t>(((hash << kShardBits) >> 32) * count >> 32); }
  Entry* Insert(int64_t key, uint64_t hash, Ref ref, uint32_t stamp);
  Entry* Find(int64_t key, uint64_t hash) const;
  int64_t bytes() const { return RoundUp(int64_t{64} * count, 4096); }

  Pages pages;
  Bucket* data;
  uint32_t count;
};

inline const Bucket* Index::Ask(uint64_t hash) const {
  const Buckets& buckets = *shards_[ShardOf(hash)].now.load(std::memory_order_acquire);
  const Bucket* home = &buckets.data[buckets.Home(hash)];
  __builtin_prefetch(home);
  return home;
}

inline Entry* Index::Buckets::Find(int64_t key, uint64_t hash) const {
  for (uint32_t b = Home(hash);; b = b + 1 == count ? 0 : b + 1) {
    if (const Entry* entry = EntryIn(data[b], key)) return const_cast<Entry*>(entry);
    if (!IsFull(data[b])) return nullptr;
  }
}

inline Entry* Index::FindEntry(int64_t key, uint64_t hash) const {
  return shards_[ShardOf(hash)].now.load(std::memory_order_acquire)->Find(key, hash);
}

inline void Index::Unmark(int64_t key, uint64_t hash) {
  const One& one = shards_[ShardOf(hash)];
  for (const Buckets* buckets : {one.held.get(), one.next.get()}) {
    if (Entry* entry = buckets ? buckets->Find(key, hash) : nullptr) entry->stamp &= ~uint32_t{1};
  }
}

template <class Visit>
void Index::ForEachEntry(int64_t shard, const Visit& visit) const {
  const Buckets& buckets = *shards_[shard].now.load(std::memory_order_relaxed);
  for (uint32_t b = 0; b < buckets.count; ++b) {
    for (Entry& entry : buckets.data[b].entries) {
      if (entry.ref.load(std::memory_order_relaxed) != 0) visit(entry);
    }
  }
}

template <class Keep>
void Index::Sift(int64_t shard, int64_t entries, const Keep& keep) {
  One& one = shards_[shard];
  Prepare(one, BucketsFor(shard, entries));
  ForEachEntry(shard, [&](const Entry& entry) {
    if (!keep(entry)) return;
    const int64_t key = entry.key.load(std::memory_order_relaxed);
    const Ref ref = entry.ref.load(std::memory_order_relaxed);
    ++one.next_used, one.next_gone += ref == kGone;
    one.next->Insert(key, HashKey(key), ref, entry.stamp);
  });
}

}  // namespace ctrlab::embedding
