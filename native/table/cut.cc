#include "table/cut.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "table/messages.h"
#include "table/tier.h"

namespace ctrlab::embedding {
namespace {

template <class T>
std::unique_ptr<T[]> Make(int64_t count) {
  return std::make_unique_for_overwrite<T[]>(count);
}

}  // namespace

Status ReadRows(StoreSnapshot& below, int64_t dim, int64_t slots, int64_t begin, int64_t count, const StateOut& out) {
  const Record record{dim * (1 + slots)};
  const int64_t most = std::min(count, RecordsAtATime(record)), bytes = dim * static_cast<int64_t>(sizeof(float));
  const auto records = Make<char>(most * record.bytes());
  for (const int64_t end = begin + count; begin < end;) {
    int64_t read = 0;
    if (Status bad = below.Next(std::min(most, end - begin), out.keys + begin, records.get(), &read); !bad.ok()) return bad;
    if (read == 0) return Problem("A snapshot of ", below.size(), " rows ended ", end - begin, " rows too early.");
    for (int64_t i = 0; i < read; ++i, ++begin) {
      const char* from = records.get() + i * record.bytes();
      std::memcpy(out.values + begin * dim, from, bytes);
      for (int64_t s = 0; s < slots; ++s) std::memcpy(out.slots[s] + begin * dim, from + (1 + s) * bytes, bytes);
      out.frequencies[begin] = record.Frequency(from);
      out.steps[begin] = record.Step(from);
    }
  }
  return Status();
}

Cut::Cut(int64_t dim, int64_t slots, const StateSizes& memory, std::unique_ptr<StoreSnapshot> below)
    : dim_(dim),
      slots_(slots),
      memory_(memory),
      sizes_(memory),
      keys_(Make<int64_t>(memory.rows)),
      frequencies_(Make<int64_t>(memory.rows)),
      steps_(Make<int64_t>(memory.rows)),
      candidate_keys_(Make<int64_t>(memory.candidates)),
      candidate_counts_(Make<int64_t>(memory.candidates)),
      candidate_steps_(Make<int64_t>(memory.candidates)),
      removed_(Make<int64_t>(memory.removed)),
      values_(Make<float>(memory.rows * dim)),
      filter_(Make<uint8_t>(memory.filter_bytes)),
      below_(std::move(below)) {
  for (int64_t s = 0; s < slots; ++s) slot_values_[s] = Make<float>(memory.rows * dim);
  if (below_) sizes_.rows += below_->size();
}

StateOut Cut::Room() {
  return {keys_.get(),
          values_.get(),
          {slot_values_[0].get(), slot_values_[1].get()},
          frequencies_.get(),
          steps_.get(),
          candidate_keys_.get(),
          candidate_counts_.get(),
          candidate_steps_.get(),
          filter_.get(),
          removed_.get()};
}

Status Cut::Next(int64_t most, const MakeRoom& make_room) try {
  if (done_) return Problem("The parts of a cut are read once; all ", sizes_.rows, " rows of this one were.");
  if (most < 1) return Problem("A part of a cut has room for at least 1 row; received ", most, ".");
  const bool first = row_ == 0 && candidate_ == 0;
  const StateSizes part{std::min(most, sizes_.rows - row_), std::min(most, sizes_.candidates - candidate_),
                        first ? sizes_.filter_bytes : 0, first ? sizes_.removed : 0};
  StateOut out;
  if (Status bad = make_room(part, &out); !bad.ok()) return bad;
  const int64_t from = std::min(row_, memory_.rows), rows = std::min(part.rows, memory_.rows - from);
  std::copy_n(keys_.get() + from, rows, out.keys);
  std::copy_n(frequencies_.get() + from, rows, out.frequencies);
  std::copy_n(steps_.get() + from, rows, out.steps);
  std::copy_n(values_.get() + from * dim_, rows * dim_, out.values);
  for (int64_t s = 0; s < slots_; ++s) std::copy_n(slot_values_[s].get() + from * dim_, rows * dim_, out.slots[s]);
  if (part.rows > rows) {
    if (Status bad = ReadRows(*below_, dim_, slots_, rows, part.rows - rows, out); !bad.ok()) return bad;
  }
  std::copy_n(candidate_keys_.get() + candidate_, part.candidates, out.candidate_keys);
  std::copy_n(candidate_counts_.get() + candidate_, part.candidates, out.candidate_counts);
  std::copy_n(candidate_steps_.get() + candidate_, part.candidates, out.candidate_steps);
  std::copy_n(filter_.get(), part.filter_bytes, out.filter);
  std::copy_n(removed_.get(), part.removed, out.removed);
  row_ += part.rows, candidate_ += part.candidates;
  done_ = row_ == sizes_.rows && candidate_ == sizes_.candidates;
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

}  // namespace ctrlab::embedding
