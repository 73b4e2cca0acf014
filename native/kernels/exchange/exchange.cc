// Each table's ids go through a hash table of their own, so tables are independent of each other; then each key's place follows
// from the counts by owner and table.

#include "kernels/exchange/exchange.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "store/hash.h"

namespace ctrlab {
namespace {

constexpr int64_t kCyclesPerId = 30;

// A table's distinct keys in the order in which they came.
struct Distinct {
  std::vector<int64_t> keys, times;
  std::vector<int32_t> owners;
  std::vector<int64_t> place;  // among all tables' keys
};

// Open addressing: a slot holds the number of a key, or -1.
class Numbers {
 public:
  explicit Numbers(int64_t ids) : mask_(std::bit_ceil(static_cast<uint64_t>(2 * ids + 2)) - 1), slots_(mask_ + 1, -1) {}

  // The number of `key`, whose hash is given; `keys` gets it as its last one if it is new.
  int32_t Of(int64_t key, uint64_t hash, std::vector<int64_t>* keys) {
    for (uint64_t at = hash & mask_;; at = (at + 1) & mask_) {
      int32_t& number = slots_[at];
      if (number < 0) {
        keys->push_back(key);
        return number = static_cast<int32_t>(std::ssize(*keys) - 1);
      }
      if ((*keys)[number] == key) return number;
    }
  }

 private:
  const uint64_t mask_;
  std::vector<int32_t> slots_;
};

// A table's distinct keys; each id's place is the number of its key for now.
void Find(const AskedColumn* columns, int64_t column_count, int64_t workers, bool grows, Distinct* found) {
  int64_t ids = 0;
  for (int64_t c = 0; c < column_count; ++c) ids += columns[c].count;
  Numbers numbers(ids);
  for (int64_t c = 0; c < column_count; ++c) {
    for (int64_t i = 0; i < columns[c].count; ++i) {
      const int64_t key = columns[c].ids[i];
      if (!grows && key < 0) {
        columns[c].places[i] = -1;
        continue;
      }
      const uint64_t hash = embedding::HashKey(key);
      const int32_t number = numbers.Of(key, hash, &found->keys);
      if (number == std::ssize(found->times)) {
        found->times.push_back(0);
        found->owners.push_back(static_cast<int32_t>(grows ? hash % static_cast<uint64_t>(workers) : key % workers));
      }
      ++found->times[number];
      columns[c].places[i] = number;
    }
  }
}

}  // namespace
}  // namespace ctrlab

void ctrlab_asked_keys(const ctrlab::AskedColumn* columns, int64_t column_count, int64_t tables, int64_t workers, bool grows,
                       ctrlab::AskedKeys* asked, const ctrlab::ParallelFor* parallel_for) {
  using namespace ctrlab;
  std::vector<int64_t> first(tables + 1, 0);  // of each table's columns
  int64_t ids = 0;
  for (int64_t c = 0; c < column_count; ++c) ++first[columns[c].table + 1], ids += columns[c].count;
  for (int64_t t = 0; t < tables; ++t) first[t + 1] += first[t];
  std::vector<Distinct> found(tables);
  const int64_t cycles = kCyclesPerId * (1 + ids / std::max<int64_t>(tables, 1));
  (*parallel_for)(tables, cycles, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) Find(columns + first[t], first[t + 1] - first[t], workers, grows, &found[t]);
  });

  std::fill_n(asked->counts, workers * tables, 0);
  for (int64_t t = 0; t < tables; ++t) {
    for (const int32_t owner : found[t].owners) ++asked->counts[owner * tables + t];
  }
  std::vector<int64_t> next(workers * tables + 1, 0);
  for (int64_t k = 0; k < workers * tables; ++k) next[k + 1] = next[k] + asked->counts[k];
  asked->count = next.back();

  (*parallel_for)(tables, cycles, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      Distinct& of = found[t];
      of.place.resize(of.keys.size());
      for (size_t k = 0; k < of.keys.size(); ++k) {
        const int64_t place = of.place[k] = next[of.owners[k] * tables + t]++;
        asked->keys[place] = grows ? of.keys[k] : of.keys[k] / workers;
        asked->times[place] = of.times[k];
      }
      for (int64_t c = first[t]; c < first[t + 1]; ++c) {
        for (int64_t i = 0; i < columns[c].count; ++i) {
          int64_t& place = columns[c].places[i];
          if (place >= 0) place = of.place[place];
        }
      }
    }
  });
}
