// Where a key's row is: shards of buckets, a cache line each, of four entries. A key's bucket comes from its hash; where that is
// full, the next one that is not (round the end of the shard).
//
// Readers take no lock. One writer a shard inserts beside them: an entry is there once its `ref` is, which is written last. A
// shard grows by 1.45 into a new array, which readers find from then on; the old one stays until TakeOld, when no reader can be
// in it. The shards' sizes are staggered, so that not all grow at once and memory goes up evenly.
//
// A key that is gone has an entry as long as a tier below may still hold a record of it, which the entry says is dead.

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

// What an entry says of its key: 0: the entry is empty; below kCandidate: the key has row `ref - 1`; else it came `ref -
// kCandidate` times: 0 times where it is gone.
using Ref = uint32_t;
constexpr Ref kCandidate = Ref{1} << 31;
constexpr Ref kGone = kCandidate;
constexpr Ref kElsewhere = kCandidate;  // of one bucket: the search must go on, which finds out of a key that is gone
constexpr int64_t kMostCount = kCandidate - 1;
constexpr int64_t kMostRows = kCandidate - 1;

inline bool IsRow(Ref ref) { return ref - 1 < kCandidate - 1; }
// Whether the table holds something under an entry's key.
inline bool IsLive(Ref ref) { return ref != 0 && ref != kGone; }

struct Entry {
  std::atomic<int64_t> key;
  std::atomic<Ref> ref;
  uint32_t stamp;  // last step, and in the lowest bit whether the change log has the key in its list; only writers look

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

  // For readers: where a key's entry should be, on its way into the cache; what that bucket says; and the whole search.
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

  // For the writer, or the one that works on this shard for it.
  Entry* FindEntry(int64_t key, uint64_t hash) const;

  // Room for `more` entries in a shard; whether it grew, so that its entries are elsewhere now. Throws std::bad_alloc.
  bool Reserve(int64_t shard, int64_t more);

  // Adds a key that has no entry, where there is room for one. Its entry stays where it is until the shard grows or is sifted.
  Entry* Insert(int64_t key, uint64_t hash, Ref ref, uint32_t stamp);
  // Gives an entry another ref. Whoever makes an entry live that was gone, or the other way, must do it here.
  void SetRef(Entry* entry, uint64_t hash, Ref ref) {
    shards_[ShardOf(hash)].gone += (ref == kGone) - (entry->ref.load(std::memory_order_relaxed) == kGone);
    entry->ref.store(ref, std::memory_order_release);
  }

  // The change log has the key in its list no more: in what readers find, and in what Sift has made of it and Publish will show.
  void Unmark(int64_t key, uint64_t hash);

  // Calls visit(entry) for a shard's entries that are live.
  template <class Visit>
  void ForEach(int64_t shard, const Visit& visit) const {
    ForEachEntry(shard, [&](Entry& entry) {
      if (IsLive(entry.ref.load(std::memory_order_relaxed))) visit(entry);
    });
  }

  // A shard without some of its entries, with room for `entries`, made beside readers, who find it from Publish on. Throws
  // std::bad_alloc.
  template <class Keep>
  void Sift(int64_t shard, int64_t entries, const Keep& keep);
  // Into what Sift has made: a key that is gone. What Sift has kept of it must not be live.
  void AddGone(int64_t key, uint64_t hash);
  void Publish(int64_t shard);  // nothing where none was made
  void Discard();               // what was made and not published

  // What no reader can be in any more, called when there is none; it takes the system a while to free it.
  struct Buckets;
  using Old = std::array<std::vector<std::unique_ptr<Buckets>>, kShards>;
  Old TakeOld();

  int64_t entries(int64_t shard) const { return shards_[shard].used; }
  int64_t gone(int64_t shard) const { return shards_[shard].gone; }  // of these, keys that are gone
  int64_t bytes() const;                                             // with those to be reclaimed

 private:
  static const Entry* EntryIn(const Bucket& bucket, int64_t key) {
    unsigned equal = 0;  // no branch for each: which of the four it is can't be foreseen
    for (unsigned e = 0; e < 4; ++e)
      equal |= static_cast<unsigned>(bucket.entries[e].key.load(std::memory_order_relaxed) == key) << e;
    if (!equal) return nullptr;
    // An entry that is being written may have looked like 0; its key is there when its ref is.
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
