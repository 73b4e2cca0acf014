// The content of a table at one moment, or its changes since a consumer's version, to be read in parts. It consists of a copy of
// the rows in memory and a snapshot of the rows below. It outlives the table.

#pragma once

#include <cstdint>
#include <memory>

#include "store/segment_store.h"
#include "store/status.h"
#include "table/state.h"

namespace ctrlab::embedding {

// Reads the next rows of a tier's snapshot into `out`, starting at row `begin`. A snapshot that ends early is a problem. Throws
// std::bad_alloc.
Status ReadRows(StoreSnapshot& below, int64_t dim, int64_t slots, int64_t begin, int64_t count, const StateOut& out);

class Cut {
 public:
  // `memory`: the sizes of what the table will write to Room. Throws std::bad_alloc.
  Cut(int64_t dim, int64_t slots, const StateSizes& memory, std::unique_ptr<StoreSnapshot> below);

  int64_t version() const { return version_; }
  int64_t since() const { return since_; }  // the consumer's version before this cut; -1: this is everything
  int64_t dim() const { return dim_; }
  int64_t slots() const { return slots_; }
  const StateSizes& sizes() const { return sizes_; }  // totals over all parts
  bool done() const { return done_; }                 // no part is left; there is at least one part

  // The next part: at most `most` rows and as many candidates; filter and removed keys are in the first. Each key comes once.
  // After a problem the cut can't be used any more.
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
  int64_t row_ = 0, candidate_ = 0;  // the next ones
  bool done_ = false;
};

}  // namespace ctrlab::embedding
