// Rows of [value D | slot 1 D | slot 2 D] floats, with each key's frequency. The chunks never move, so readers take no lock. A
// row's number gives its address, and a chunk exists before any of its rows has an entry in the index.

#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "table/pages.h"

namespace ctrlab::embedding {

class Rows {
 public:
  Rows(int64_t dim, int64_t slots)
      : dim_(dim),
        slots_(slots),
        width_(dim * (1 + slots)),
        bits_(std::bit_width(static_cast<uint64_t>(kChunkBytes / (4 * width_) - 1))) {}

  // The same rows under the same numbers, with other slots, all initialised to `initial`. Throws std::bad_alloc.
  Rows(const Rows& from, int64_t slots, const float* initial) : Rows(from.dim_, slots) {
    Reserve(from.used_);
    used_ = from.used_;
    free_ = from.free_;
    for (int64_t r = 0; r < used_; ++r) {
      const uint32_t row = static_cast<uint32_t>(r);
      std::copy_n(from.Row(row), dim_, Row(row));
      for (int64_t s = 0; s < slots; ++s) std::fill_n(Row(row) + (1 + s) * dim_, dim_, initial[s]);
      Frequency(row) = from.Frequency(row);
    }
  }

  int64_t dim() const { return dim_; }
  int64_t slots() const { return slots_; }

  // For readers: the row's value, followed by its slots.
  float* Row(uint32_t row) const {
    return chunks_.load(std::memory_order_acquire)[row >> bits_].rows + static_cast<int64_t>(row & Mask()) * width_;
  }

  // For writers.
  uint32_t& Frequency(uint32_t row) const {
    return chunks_.load(std::memory_order_relaxed)[row >> bits_].frequencies[row & Mask()];
  }

  // Makes room for `more` rows. Take(0) to Take(more - 1) give their numbers, in any order, from any thread; Took commits them.
  // Throws std::bad_alloc.
  void Reserve(int64_t more) {
    const int64_t chunks = (used_ + more + Mask()) >> bits_;
    if (chunks > room_) Widen(std::max(chunks, 2 * room_));
    for (int64_t c = std::ssize(held_); c < chunks; ++c) {
      const int64_t rows = Mask() + 1, small = c == 0 ? kHugePage : 0;
      held_.push_back({Pages(rows * width_ * 4, small), Pages(rows * 4, small)});
      lists_.back()[c] = {held_[c].rows.data<float>(), held_[c].frequencies.data<uint32_t>()};
    }
  }

  uint32_t Take(int64_t k) const {
    const int64_t free = std::ssize(free_);
    return k < free ? free_[free - 1 - k] : static_cast<uint32_t>(used_ + k - free);
  }

  void Took(int64_t count) {
    const int64_t reused = std::min<int64_t>(count, std::ssize(free_));
    free_.resize(free_.size() - reused);
    used_ += count - reused;
  }

  // Afterwards this many rows can be freed without an allocation. Throws std::bad_alloc.
  void ReserveFree(int64_t count) { free_.reserve(free_.size() + count); }

  // Frees rows for later use.
  void Free(const std::vector<uint32_t>& rows) { free_.insert(free_.end(), rows.begin(), rows.end()); }

  int64_t taken() const { return used_ - std::ssize(free_); }
  int64_t used() const { return used_; }  // rows that were ever taken: all numbers are below this

  int64_t bytes() const {
    auto touched = [&](int64_t row_bytes) {
      return RoundUp(used_ * row_bytes, used_ * row_bytes < kHugePage ? 4096 : kHugePage);
    };
    return touched(width_ * 4) + touched(4) + static_cast<int64_t>(free_.capacity()) * 4;
  }

 private:
  static constexpr int64_t kChunkBytes = 32 << 20;

  struct Chunk {
    float* rows;
    uint32_t* frequencies;
  };
  struct Held {
    Pages rows, frequencies;
  };

  // Makes a larger list of chunks. The old list is kept, because a reader may use it; all old lists together are not larger than
  // this one.
  void Widen(int64_t room) {
    auto list = std::make_unique<Chunk[]>(room);
    held_.reserve(room);
    lists_.reserve(lists_.size() + 1);
    for (int64_t c = 0; c < std::ssize(held_); ++c) list[c] = lists_.back()[c];
    chunks_.store(list.get(), std::memory_order_release);
    lists_.push_back(std::move(list));
    room_ = room;
  }

  uint32_t Mask() const { return (uint32_t{1} << bits_) - 1; }

  int64_t dim_, slots_, width_;
  int bits_;  // low bits of a row's number: its position in the chunk
  std::atomic<const Chunk*> chunks_ = nullptr;
  std::vector<std::unique_ptr<Chunk[]>> lists_;
  std::vector<Held> held_;
  std::vector<uint32_t> free_;
  int64_t used_ = 0, room_ = 0;
};

}  // namespace ctrlab::embedding
