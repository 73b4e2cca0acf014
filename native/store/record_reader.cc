#include "store/record_reader.h"

#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ctrlab::embedding {

namespace {

constexpr int64_t kDepth = 128;            // reads in flight
constexpr int64_t kRunBytes = 4 * kBlock;  // the largest read that combines neighbouring records
constexpr int64_t kCyclesOfRead = 20'000;

}  // namespace

// One system queue for reads and a buffer for each of them.
class RecordReader::Queue {
 public:
  // With the page cache the system's queue would process the reads one by one, so there is none.
  Queue(int64_t slot_bytes, bool direct, const std::shared_ptr<StoreMemory>& memory)
      : slot_bytes_(slot_bytes), buffer_(direct ? kDepth * slot_bytes : slot_bytes, memory) {
    if (!direct || syscall(SYS_io_setup, kDepth, &context_) != 0) context_ = 0;
  }
  ~Queue() {
    if (context_) syscall(SYS_io_destroy, context_);
  }
  char* slot(int64_t i) const { return buffer_.data() + i * slot_bytes_; }
  bool works() const { return context_ != 0; }

  int64_t Submit(iocb** requests, int64_t count) {
    const long taken = syscall(SYS_io_submit, context_, count, requests);
    if (taken > 0) return taken;
    return 0;
  }

  // Waits for at least one read; returns the number, or -1.
  int64_t Wait(io_event* events) {
    for (;;) {
      const long n = syscall(SYS_io_getevents, context_, 1, kDepth, events, nullptr);
      if (n > 0) return n;
      if (n < 0 && errno != EINTR) return -1;
    }
  }

 private:
  const int64_t slot_bytes_;
  AlignedBuffer buffer_;
  aio_context_t context_ = 0;
};

struct RecordReader::Output {
  char* rows;
  uint8_t* found;
  std::mutex mutex;
  Status status;  // the first error

  void Fail(Status problem) {
    std::lock_guard lock(mutex);
    if (status.ok()) status = std::move(problem);
  }
};

RecordReader::RecordReader(int64_t row_bytes, bool direct, std::shared_ptr<StoreMemory> memory)
    : row_bytes_(row_bytes), direct_(direct), memory_(std::move(memory)) {}
RecordReader::~RecordReader() = default;

std::unique_ptr<RecordReader::Queue> RecordReader::Borrow() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto queue = std::move(idle_.back());
      idle_.pop_back();
      return queue;
    }
  }
  return std::make_unique<Queue>(kRunBytes + RecordBytes(row_bytes_) / kBlock * kBlock + 2 * kBlock, direct_, memory_);
}

void RecordReader::GiveBack(std::unique_ptr<Queue> queue) {
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(queue));
}

void RecordReader::Deliver(const WantedRecord& wanted, const char* record, Output* output) const {
  const RecordHeader header = HeaderOf(record);
  if (!Whole(record, row_bytes_) || header.key != wanted.key || header.kind != static_cast<uint32_t>(RecordKind::kRow)) {
    output->Fail(Status("A row must be as it was written; that of key " + std::to_string(wanted.key) + " in " +
                        wanted.segment->Place(wanted.record, row_bytes_) + " is damaged; restore the file from a copy."));
    return;
  }
  std::memcpy(output->rows + wanted.place * row_bytes_, record + sizeof header, row_bytes_);
  output->found[wanted.place] = 1;
}

void RecordReader::ReadRuns(const WantedRecord* wanted, int64_t count, Output* output) {
  struct Run {
    int64_t first, last;    // of wanted
    int64_t offset, bytes;  // in the file, both multiples of a block
  };
  std::vector<Run> runs;
  const int64_t record_bytes = RecordBytes(row_bytes_);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t offset = RecordOffset(wanted[i].record, row_bytes_);
    const int64_t begin = offset / kBlock * kBlock, end = (offset + record_bytes + kBlock - 1) / kBlock * kBlock;
    if (!runs.empty() && wanted[i].segment == wanted[runs.back().first].segment &&
        begin <= runs.back().offset + runs.back().bytes && end - runs.back().offset <= std::max(kRunBytes, runs.back().bytes)) {
      runs.back().last = i + 1;
      runs.back().bytes = std::max(runs.back().bytes, end - runs.back().offset);
    } else {
      runs.push_back({i, i + 1, begin, end - begin});
    }
  }
  auto deliver = [&](const Run& run, const char* bytes, int64_t read) {
    for (int64_t i = run.first; i < run.last; ++i) {
      const int64_t at = RecordOffset(wanted[i].record, row_bytes_) - run.offset;
      if (at + record_bytes <= read) {
        Deliver(wanted[i], bytes + at, output);
      } else {
        output->Fail(Status("A row must lie in its file; " + wanted[i].segment->Place(wanted[i].record, row_bytes_) +
                            " is past its end; was the file cut off?"));
      }
    }
  };
  auto read_alone = [&](const Run& run, char* bytes) {
    const ssize_t n = pread(wanted[run.first].segment->fd, bytes, run.bytes, run.offset);
    if (n < 0)
      return output->Fail(SystemError("Can't read " + wanted[run.first].segment->Place(wanted[run.first].record, row_bytes_)));
    deliver(run, bytes, n);
  };
  reads_ += std::ssize(runs);

  auto queue = Borrow();
  if (!queue->works()) {
    for (const Run& run : runs) read_alone(run, queue->slot(0));
    return GiveBack(std::move(queue));
  }
  iocb requests[kDepth];
  iocb* ready[kDepth];
  io_event events[kDepth];
  int64_t slot_of_run[kDepth], idle[kDepth], idle_count = kDepth, next = 0, in_flight = 0;
  for (int64_t i = 0; i < kDepth; ++i) idle[i] = i;
  while (next < std::ssize(runs) || in_flight > 0) {
    int64_t prepared = 0;
    while (idle_count > 0 && next < std::ssize(runs)) {
      const int64_t slot = idle[--idle_count];
      const Run& run = runs[next];
      slot_of_run[slot] = next++;
      iocb& request = requests[slot];
      std::memset(&request, 0, sizeof request);
      request.aio_data = static_cast<uint64_t>(slot);
      request.aio_lio_opcode = IOCB_CMD_PREAD;
      request.aio_fildes = static_cast<uint32_t>(wanted[run.first].segment->fd);
      request.aio_buf = reinterpret_cast<uint64_t>(queue->slot(slot));
      request.aio_nbytes = static_cast<uint64_t>(run.bytes);
      request.aio_offset = run.offset;
      ready[prepared++] = &request;
    }
    int64_t submitted = 0;
    while (submitted < prepared) {
      const int64_t taken = queue->Submit(ready + submitted, prepared - submitted);
      if (taken == 0) break;
      submitted += taken;
    }
    in_flight += submitted;
    for (; submitted < prepared; ++submitted) {  // the system takes no more: read these one by one
      const auto slot = static_cast<int64_t>(ready[submitted]->aio_data);
      read_alone(runs[slot_of_run[slot]], queue->slot(slot));
      idle[idle_count++] = slot;
    }
    if (in_flight == 0) continue;
    const int64_t done = queue->Wait(events);
    // The queue is destroyed first, which waits for the system's reads, and only then its buffers.
    if (done < 0) return output->Fail(SystemError("Can't wait for reads of rows, " + std::to_string(in_flight) + " of them"));
    for (int64_t i = 0; i < done; ++i) {
      const auto slot = static_cast<int64_t>(events[i].data);
      const Run& run = runs[slot_of_run[slot]];
      if (events[i].res < 0) {
        read_alone(run, queue->slot(slot));  // reports the error, if it still exists
      } else {
        deliver(run, queue->slot(slot), events[i].res);
      }
      idle[idle_count++] = slot;
    }
    in_flight -= done;
  }
  GiveBack(std::move(queue));
}

Status RecordReader::Read(std::vector<WantedRecord>* wanted, char* rows, uint8_t* found, const ParallelFor& parallel_for) {
  std::sort(wanted->begin(), wanted->end(), WantedRecord::Before);
  Output output{rows, found, {}, {}};
  parallel_for(std::ssize(*wanted), kCyclesOfRead,
               [&](int64_t begin, int64_t end) { ReadRuns(wanted->data() + begin, end - begin, &output); });
  return output.status;
}

}  // namespace ctrlab::embedding
