// What a table holds at one moment, or what changed of it since a consumer's version, to be read in parts: a copy of what is in
// memory, and a snapshot of what is below. It outlives the table.

#pragma once

#include <cstdint>
#include <memory>

#include "store/segment_store.h"
#include "store/status.h"
#include "table/state.h"

namespace ctrlab::embedding {

// The next rows of a snapshot of a tier's store, to those of `out` from `begin` on. A snapshot that ends before is a problem.
// Throws std::bad_alloc.
Status ReadRows(StoreSnapshot& below, int64_t dim, int64_t slots, int64_t begin, int64_t count, const StateOut& out);

class Cut {
 public:
  // `memory`: what the table will write to Room. Throws std::bad_alloc.
  Cut(int64_t dim, int64_t slots, const StateSizes& memory, std::unique_ptr<StoreSnapshot> below);

  int64_t version() const { return version_; }
  int64_t since() const { return since_; }  // the consumer's version till now; -1: this is everything
  int64_t dim() const { return dim_; }
  int64_t slots() const { return slots_; }
  const StateSizes& sizes() const { return sizes_; }  // of all parts together
  bool done() const { return done_; }                 // no part is left; there is one at least

  // The next part: at most `most` rows and as many candidates; the filter and the removed keys are in the first. Each key comes
  // once. After a problem the cut is of no use any more.
  Status Next(int64_t most, const MakeRoom& make_room);

 private:
  friend class Table;

  template <class T>
  using Array = std::unique_ptr<T[]>;

  StateOut Room();

  const int64_t dim_, slots_;
  const StateSizes memory_;
  StateSizes sizes_;
  int64_t version_ = 0, since_ = -1;
  const Array<int64_t> keys_, frequencies_, steps_, candidate_keys_, candidate_counts_, candidate_steps_, removed_;
  const Array<float> values_;
  Array<float> slot_values_[2];
  const Array<uint8_t> filter_;
  const std::unique_ptr<StoreSnapshot> below_;
  int64_t row_ = 0, candidate_ = 0;  // the next
  bool done_ = false;
};

}  // namespace ctrlab::embedding
