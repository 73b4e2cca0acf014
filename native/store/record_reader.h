// Reads many records of segments at once: one block-aligned read for neighbouring records, and many reads in flight.

#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/abi.h"
#include "store/segment.h"

namespace ctrlab::embedding {

struct WantedRecord {
  const Segment* segment;
  uint32_t record;
  int64_t key;
  int64_t place;  // its row in the output

  static bool Before(const WantedRecord& a, const WantedRecord& b) {
    return a.segment->number != b.segment->number ? a.segment->number < b.segment->number : a.record < b.record;
  }
};

class RecordReader {
 public:
  RecordReader(int64_t row_bytes, bool direct, std::shared_ptr<StoreMemory> memory);
  ~RecordReader();

  // Copies the row of each wanted record to rows + place * row_bytes and sets found[place]. Sorts `wanted`. A record that is
  // damaged or has another key is an error that names it; all other records are still read.
  Status Read(std::vector<WantedRecord>* wanted, char* rows, uint8_t* found, const ParallelFor& parallel_for);

  int64_t reads() const { return reads_; }

 private:
  class Queue;
  struct Output;

  void ReadRuns(const WantedRecord* wanted, int64_t count, Output* output);
  void Deliver(const WantedRecord& wanted, const char* record, Output* output) const;
  std::unique_ptr<Queue> Borrow();
  void GiveBack(std::unique_ptr<Queue> queue);

  const int64_t row_bytes_;
  const bool direct_;
  const std::shared_ptr<StoreMemory> memory_;
  std::atomic<int64_t> reads_ = 0;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Queue>> idle_;
};

}  // namespace ctrlab::embedding
