#include "table/index.h"

#include <cmath>

namespace ctrlab::embedding {
namespace {

constexpr double kGrowth = 1.45;
constexpr double kFull =
    0.72 * 4;  // entries per bucket when a shard grows: then 1 key in 9 is not in its first bucket; afterwards 1 in 40

}  // namespace

Index::Index() {
  for (int64_t s = 0; s < kShards; ++s) {
    Prepare(shards_[s], BucketsFor(s, 0));
    Publish(s);
  }
}

uint32_t Index::BucketsFor(int64_t shard, int64_t entries) {
  double count = 4 * std::pow(kGrowth, static_cast<double>(shard) / kShards);
  while (std::floor(count) * kFull < static_cast<double>(entries)) count *= kGrowth;
  return static_cast<uint32_t>(count);
}

void Index::Prepare(One& one, uint32_t count) {
  one.old.reserve(one.old.size() + 1);  // Publish must not fail
  one.next = std::make_unique<Buckets>(count);
  one.next_used = one.next_gone = 0;
}

bool Index::Reserve(int64_t shard, int64_t more) {
  One& one = shards_[shard];
  if (static_cast<double>(one.used + more) <= one.held->count * kFull) return false;
  Sift(shard, one.used + more, [](const Entry&) { return true; });
  Publish(shard);
  return true;
}

void Index::Publish(int64_t shard) {
  One& one = shards_[shard];
  if (!one.next) return;
  one.now.store(one.next.get(), std::memory_order_release);
  one.held.swap(one.next);
  one.used = one.next_used, one.gone = one.next_gone;
  if (one.next) one.old.push_back(std::move(one.next));
}

void Index::Discard() {
  for (One& one : shards_) one.next.reset();
}

Index::Old Index::TakeOld() {
  Old old;
  for (int64_t s = 0; s < kShards; ++s) old[s].swap(shards_[s].old);
  return old;
}

void Index::AddGone(int64_t key, uint64_t hash) {
  One& one = shards_[ShardOf(hash)];
  if (one.next->Find(key, hash)) return;
  one.next->Insert(key, hash, kGone, 0);
  ++one.next_used, ++one.next_gone;
}

Entry* Index::Insert(int64_t key, uint64_t hash, Ref ref, uint32_t stamp) {
  One& one = shards_[ShardOf(hash)];
  ++one.used, one.gone += ref == kGone;
  return one.held->Insert(key, hash, ref, stamp);
}

Entry* Index::Buckets::Insert(int64_t key, uint64_t hash, Ref ref, uint32_t stamp) {
  for (uint32_t b = Home(hash);; b = b + 1 == count ? 0 : b + 1) {
    for (Entry& entry : data[b].entries) {
      if (entry.ref.load(std::memory_order_relaxed) != 0) continue;
      entry.key.store(key, std::memory_order_relaxed);
      entry.stamp = stamp;
      entry.ref.store(ref, std::memory_order_release);
      return &entry;
    }
  }
}

int64_t Index::bytes() const {
  int64_t bytes = 0;
  for (const One& one : shards_) {
    bytes += one.held->bytes();
    if (one.next) bytes += one.next->bytes();
    for (const auto& old : one.old) bytes += old->bytes();
  }
  return bytes;
}

}  // namespace ctrlab::embedding
