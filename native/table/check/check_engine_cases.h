// The building blocks of the engine's checks: keys, some of which share a bucket; a tier that may refuse to write; the arrays of
// a saved state; and random tables.

#pragma once

#include <atomic>
#include <cinttypes>
#include <map>
#include <memory_resource>
#include <mutex>
#include <set>

#include "check/harness.h"
#include "table/table.h"

namespace ctrlab::check::engine {

using namespace ctrlab::embedding;

[[noreturn]] inline void Wrong(const std::string& what, int64_t key) {
  std::printf("%s, key %" PRId64 "\n", what.c_str(), key);
  std::fflush(stdout);
  std::_Exit(1);
}

inline void Must(const Status& status) {
  if (!status.ok()) Wrong(status.problem(), 0);
}

// The key with this hash: inverts the steps of Mix.
inline int64_t KeyOf(uint64_t hash) {
  auto undo = [](uint64_t x, int shift) { return x ^ (x >> shift) ^ (x >> (2 * shift)); };
  auto inverse = [](uint64_t odd) {
    uint64_t x = odd;
    for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
    return x;
  };
  hash = undo(hash, 31) * inverse(0x94d049bb133111eb);
  hash = undo(hash, 27) * inverse(0xbf58476d1ce4e5b9);
  return static_cast<int64_t>(undo(hash, 30) - kGolden);
}

// What a store was asked to read.
struct Reads {
  std::atomic<int64_t> calls = 0, keys = 0;
};

// A tier's store based on std::map. It sometimes refuses to write, and counts what it is asked for.
class MapStore : public SegmentStore {
 public:
  MapStore(int64_t row_bytes, std::atomic<int>* refuse_in, Reads* reads)
      : row_bytes_(row_bytes), refuse_in_(refuse_in), reads_(reads) {}

  Status Put(const int64_t* keys, const void* rows, int64_t count) override {
    std::lock_guard lock(mutex_);
    for (int64_t i = 0; i < count; ++i) {
      if (i == count / 2 && Refused()) return Status("the disk is full");
      const char* row = static_cast<const char*>(rows) + i * row_bytes_;
      rows_[keys[i]].assign(row, row + row_bytes_);
    }
    return Status();
  }
  Status Get(const int64_t* keys, int64_t count, void* rows, uint8_t* found, const ParallelFor&) override {
    std::lock_guard lock(mutex_);
    if (reads_) ++reads_->calls, reads_->keys += count;
    for (int64_t i = 0; i < count; ++i) {
      const auto one = rows_.find(keys[i]);
      found[i] = one != rows_.end();
      if (found[i]) std::memcpy(static_cast<char*>(rows) + i * row_bytes_, one->second.data(), row_bytes_);
    }
    return Status();
  }
  Status Erase(const int64_t* keys, int64_t count) override {
    std::lock_guard lock(mutex_);
    for (int64_t i = 0; i < count; ++i) {
      if (i == count / 2 && Refused()) return Status("the disk is full");
      rows_.erase(keys[i]);
    }
    return Status();
  }
  Status Find(const int64_t* keys, int64_t count, uint8_t* found) override {
    std::lock_guard lock(mutex_);
    for (int64_t i = 0; i < count; ++i) found[i] = rows_.contains(keys[i]);
    return Status();
  }
  Status Flush() override { return Status(); }
  Status Relieve() override { return Status(); }
  Status Compact() override { return Status(); }
  Status Snapshot(std::unique_ptr<StoreSnapshot>* snapshot, const std::function<bool(int64_t)>& wanted) override {
    std::lock_guard lock(mutex_);
    Content rows(Elsewhere());
    for (const auto& one : rows_) {
      if (!wanted || wanted(one.first)) rows.insert(one);
    }
    *snapshot = std::make_unique<Copy>(std::move(rows), row_bytes_);
    return Status();
  }
  Status SnapshotOf(const int64_t* keys, int64_t count, uint8_t* found, std::unique_ptr<StoreSnapshot>* snapshot) override {
    if (Status bad = Find(keys, count, found); !bad.ok()) return bad;
    const std::set<int64_t> wanted(keys, keys + count);
    return Snapshot(snapshot, [&](int64_t key) { return wanted.contains(key); });
  }
  StoreStats Stats() override {
    std::lock_guard lock(mutex_);
    StoreStats stats;
    stats.live = std::ssize(rows_);
    return stats;
  }
  std::vector<std::string> Warnings() override { return {}; }

 private:
  // Not operator new, whose bytes the table must account for.
  class Malloc final : public std::pmr::memory_resource {
    void* do_allocate(size_t bytes, size_t) override { return std::malloc(bytes); }
    void do_deallocate(void* memory, size_t, size_t) override { std::free(memory); }
    bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
  };
  static Malloc* Elsewhere() {
    static Malloc malloc;
    return &malloc;
  }
  using Content = std::pmr::map<int64_t, std::pmr::vector<char>>;

  class Copy final : public StoreSnapshot {
   public:
    Copy(Content rows, int64_t row_bytes) : rows_(std::move(rows)), next_(rows_.begin()), row_bytes_(row_bytes) {}
    int64_t size() const override { return std::ssize(rows_); }
    Status Next(int64_t limit, int64_t* keys, void* rows, int64_t* count) override {
      for (*count = 0; *count < limit && next_ != rows_.end(); ++next_) {
        keys[*count] = next_->first;
        std::memcpy(static_cast<char*>(rows) + (*count)++ * row_bytes_, next_->second.data(), row_bytes_);
      }
      return Status();
    }

   private:
    const Content rows_;
    Content::const_iterator next_;
    const int64_t row_bytes_;
  };

  bool Refused() { return refuse_in_ && --*refuse_in_ == 0; }

  std::mutex mutex_;
  Content rows_{Elsewhere()};
  const int64_t row_bytes_;
  std::atomic<int>* refuse_in_;
  Reads* reads_;
};

inline TierOptions TierOf(int64_t memory_rows, Cache cache, std::atomic<int>* refuse_in = nullptr, Reads* reads = nullptr) {
  return {[=](int64_t row_bytes, std::unique_ptr<SegmentStore>* store) {
            *store = std::make_unique<MapStore>(row_bytes, refuse_in, reads);
            return Status();
          },
          memory_rows, cache};
}

// The arrays of a state.
struct Saved {
  std::vector<int64_t> keys, frequencies, steps, candidate_keys, candidate_counts, candidate_steps, removed;
  Floats values, slots[2];
  std::vector<uint8_t> filter;

  MakeRoom Room(int64_t dim, int64_t slot_count) {
    return [=, this](const StateSizes& sizes, StateOut* out) {
      keys.resize(sizes.rows), frequencies.resize(sizes.rows), steps.resize(sizes.rows), values.resize(sizes.rows * dim);
      candidate_keys.resize(sizes.candidates), candidate_counts.resize(sizes.candidates),
          candidate_steps.resize(sizes.candidates);
      removed.resize(sizes.removed), filter.resize(sizes.filter_bytes);
      for (int64_t s = 0; s < slot_count; ++s) slots[s].resize(sizes.rows * dim);
      *out = Arrays<StateOut>(*this);
      return Status();
    };
  }

  // Appends a part of a cut to the earlier parts.
  void Append(const Saved& part) {
    const auto append = [](auto* to, const auto& from) { to->insert(to->end(), from.begin(), from.end()); };
    append(&keys, part.keys), append(&frequencies, part.frequencies), append(&steps, part.steps), append(&values, part.values);
    append(&candidate_keys, part.candidate_keys), append(&candidate_counts, part.candidate_counts);
    append(&candidate_steps, part.candidate_steps), append(&removed, part.removed), append(&filter, part.filter);
    for (int s = 0; s < 2; ++s) append(&slots[s], part.slots[s]);
  }

  StateSizes Sizes() const { return {std::ssize(keys), std::ssize(candidate_keys), std::ssize(filter), std::ssize(removed)}; }

  StateIn In() const { return Arrays<StateIn>(*this); }

 private:
  template <class State, class Self>
  static State Arrays(Self& self) {
    return {self.keys.data(),
            self.values.data(),
            {self.slots[0].data(), self.slots[1].data()},
            self.frequencies.data(),
            self.steps.data(),
            self.candidate_keys.data(),
            self.candidate_counts.data(),
            self.candidate_steps.data(),
            self.filter.data(),
            self.removed.data()};
  }
};

struct Case {
  int64_t dim;
  AdmissionKind admission;
  int64_t threshold;
  StepKind kind;
  double clip_norm;
  double spread;        // of the initial values: the width of their range
  int64_t memory_rows;  // 0: without a tier
  std::vector<int64_t> keys;
};

inline Case RandomCase(int round) {
  const int64_t dims[] = {1, 4, 15, 16, 17, 40};
  Case test{dims[Uniform(0, 6)],
            static_cast<AdmissionKind>(round % 3),
            Uniform(1, 6),
            static_cast<StepKind>(round / 3 % 4),
            round % 2 ? 0.5 : 0.0,
            0.1,
            round / 2 % 2 * Uniform(1, 300),
            {0, -1, 1, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}};
  if (test.admission == AdmissionKind::kAll) test.threshold = 1;
  const int64_t count = Uniform(1, 1500);
  const uint64_t bucket = rng();
  for (int64_t k = 0; k < count; ++k) {
    switch (Uniform(0, 4)) {
      case 0:
        test.keys.push_back(Uniform(-50, 50));
        break;
      case 1:
        test.keys.push_back(static_cast<int64_t>(rng()));
        break;
      case 2:
        test.keys.push_back(KeyOf((bucket & ~uint64_t{0xffff}) + rng() % 64));
        break;  // all in one bucket
      default:
        test.keys.push_back(Uniform(0, 1000) << 40);
    }
  }
  return test;
}

}  // namespace ctrlab::check::engine
