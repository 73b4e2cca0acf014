// The location of each key's record: a hash table of {key, segment, record} in memory, 16 bytes per entry; any int64 is a key.
//
// Shards grow separately, each to twice its size at a load factor of 0.8, so that no single insertion moves all entries.
// Collisions use linear probing. Erasing moves later entries back, so no slot is lost to tombstones.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "store/hash.h"

namespace ctrlab::embedding {

struct Location {
  static constexpr uint32_t kNone = ~0u;

  uint32_t segment = kNone;
  uint32_t record = 0;

  bool found() const { return segment != kNone; }
  bool operator==(const Location&) const = default;
};

class StoreIndex {
 public:
  struct Entry {
    int64_t key = 0;
    Location at;
  };

  Location Find(int64_t key) const {
    const uint64_t hash = HashKey(key);
    const Shard& shard = shards_[hash >> kShift];
    if (shard.places.empty()) return {};
    return shard.places[shard.PlaceOf(key, hash)].at;
  }

  void Prefetch(int64_t key) const {
    const uint64_t hash = HashKey(key);
    const Shard& shard = shards_[hash >> kShift];
    if (!shard.places.empty()) __builtin_prefetch(&shard.places[hash & shard.mask()]);
  }

  using Places = std::vector<Entry>;

  // Calls body(shard, entries) for each shard that lacks room for those of these keys that belong to it.
  template <class Body>
  void ForEachTooSmall(const int64_t* keys, int64_t count, const Body& body) const {
    std::array<int64_t, kShards> more{};
    for (int64_t i = 0; i < count; ++i) ++more[HashKey(keys[i]) >> kShift];
    for (int64_t s = 0; s < kShards; ++s) {
      const int64_t entries = static_cast<int64_t>(shards_[s].used) + more[s];
      if (more[s] && entries * 5 > std::ssize(shards_[s].places) * 4) body(s, entries);
    }
  }

  // A shard's new slots with room for `entries`, to be passed to Replace. The index must not change between the two calls.
  Places Grown(int64_t shard, int64_t entries) const {
    const Places& old = shards_[shard].places;
    Shard grown{Places(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(8, (entries * 5 + 3) / 4))))};
    for (const Entry& entry : old) {
      if (entry.at.found()) grown.places[grown.PlaceOf(entry.key, HashKey(entry.key))] = entry;
    }
    return std::move(grown.places);
  }
  void Replace(int64_t shard, Places* places) { shards_[shard].places.swap(*places); }

  // Returns the key's previous location. There must be room for it.
  Location Set(int64_t key, Location at) {
    const uint64_t hash = HashKey(key);
    Shard& shard = shards_[hash >> kShift];
    Entry& entry = shard.places[shard.PlaceOf(key, hash)];
    const Location before = entry.at;
    if (!before.found()) ++shard.used, ++size_;
    entry = {key, at};
    return before;
  }

  Location Erase(int64_t key) {
    const uint64_t hash = HashKey(key);
    Shard& shard = shards_[hash >> kShift];
    if (shard.places.empty()) return {};
    uint64_t hole = shard.PlaceOf(key, hash);
    const Location before = shard.places[hole].at;
    if (!before.found()) return before;
    for (uint64_t next = hole;;) {
      next = (next + 1) & shard.mask();
      const Entry& entry = shard.places[next];
      if (!entry.at.found()) break;
      const uint64_t wanted = HashKey(entry.key) & shard.mask();
      // An entry may move back into the hole, unless the hole is before its home slot.
      if (((next - wanted) & shard.mask()) >= ((next - hole) & shard.mask())) shard.places[hole] = entry, hole = next;
    }
    shard.places[hole] = {};
    --shard.used, --size_;
    return before;
  }

  int64_t size() const { return size_; }

  int64_t bytes() const {
    int64_t sum = 0;
    for (const Shard& shard : shards_) sum += static_cast<int64_t>(shard.places.capacity() * sizeof(Entry));
    return sum;
  }

  template <class Body>
  void ForEach(const Body& body) const {
    for (const Shard& shard : shards_) {
      for (const Entry& entry : shard.places) {
        if (entry.at.found()) body(entry);
      }
    }
  }

 private:
  static constexpr int64_t kShards = 256;  // selected by the hash's high bits; the low bits select the slot
  static constexpr int kShift = 56;

  struct Shard {
    Places places;  // 0, or a power of two
    uint64_t used = 0;

    uint64_t mask() const { return places.size() - 1; }

    // The slot of the key, or the empty slot where it belongs.
    uint64_t PlaceOf(int64_t key, uint64_t hash) const {
      uint64_t place = hash & mask();
      while (places[place].at.found() && places[place].key != key) place = (place + 1) & mask();
      return place;
    }
  };

  std::array<Shard, kShards> shards_;
  int64_t size_ = 0;
};

}  // namespace ctrlab::embedding
