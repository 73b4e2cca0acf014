// The state of a table as arrays: those of ctrlab/embedding/table_state.py:TableState. The caller owns them.

#pragma once

#include <cstdint>
#include <functional>

#include "store/hash.h"
#include "store/status.h"

namespace ctrlab::embedding {

// The shard of a table: keys with HashKey(key) mod count == index.
struct Shard {
  uint64_t index = 0, count = 1;
  bool Has(int64_t key) const { return count == 1 || HashKey(key) % count == index; }
};

struct StateSizes {
  int64_t rows = 0, candidates = 0, filter_bytes = 0, removed = 0;  // n, m, bytes, r
};

template <class Float, class Int, class Byte>
struct StateArrays {
  Int* keys = nullptr;                   // [n]
  Float* values = nullptr;               // [n, D]
  Float* slots[2] = {nullptr, nullptr};  // each [n, D]
  Int* frequencies = nullptr;            // [n], 1 and more
  Int* steps = nullptr;                  // [n], in [0, 2^31)
  Int* candidate_keys = nullptr;         // [m]
  Int* candidate_counts = nullptr;       // [m]
  Int* candidate_steps = nullptr;        // [m]
  Byte* filter = nullptr;                // [bytes]: a Bloom filter's counters in their memory layout, little-endian
  Int* removed = nullptr;                // [r], ascending
};
using StateOut = StateArrays<float, int64_t, uint8_t>;
using StateIn = StateArrays<const float, const int64_t, const uint8_t>;

// Allocates: it receives the sizes and sets all pointers with a size (as many `slots` as the table has).
using MakeRoom = std::function<Status(const StateSizes& sizes, StateOut* out)>;

enum class ImportKind : int64_t {
  kAll = 0,      // replaces the whole content
  kMore = 1,     // adds another part of the same moment. Of a Bloom filter's counters the larger stay
  kChanges = 2,  // applies a delta: first keys are removed, then rows and candidates are added or replaced
};

}  // namespace ctrlab::embedding
