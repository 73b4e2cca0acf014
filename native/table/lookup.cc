// The lookup of many columns: for each block of rows, column by column. A key takes two memory accesses, its bucket and its row.
// Both are prefetched some keys ahead, so that several are in flight.

#include "table/lookup.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <iterator>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/lookup/row_format.h"
#include "kernels/simd.h"
#include "table/messages.h"
#include "table/sorted.h"

namespace ctrlab::embedding {

namespace {

int64_t First(const LookupColumn& column, int64_t b) { return column.splits ? column.splits[b] : b; }

}  // namespace

// A lookup's view of a table. Rows below are read while the gate is open, so that no writer, and nobody behind one, waits for the
// disk. A result is valid if nothing in its shard left the memory or the tier meanwhile. The others are read again, the ninth
// time with the gate closed to writers.
class TableReader {
 public:
  TableReader(Table* table, bool training)
      : table_(table), dim_(table->numbers()), words_(table->dim()), format_(table->format()), training_(training) {}

  static Gate& GateOf(Table* table) { return table->gate_; }

  // Call it inside the gate: whether all rows that the lookup needs are in memory or were read.
  bool Ready(const LookupInput& input, int64_t table) {
    index_ = &table_->content_->index;
    rows_ = table_->content_->rows.get();
    has_tier_ = table_->HasRowsBelow();
    if (!has_tier_) {
      below_ = {}, store_ = nullptr;  // the results belong to content that was replaced
      return true;
    }
    if (store_ && store_ == table_->tier_->store() && moves_ == table_->moves_) return true;
    const bool anew = store_ != table_->tier_->store();
    const auto has_moved = [&](int64_t key) {
      const int64_t s = Index::ShardOf(HashKey(key));
      return anew || moves_[s] != table_->moves_[s];
    };
    absent_.clear();
    for (int64_t c = 0; c < input.column_count; ++c) {
      const LookupColumn& column = input.columns[c];
      if (column.table == table) table_->AddAbsent(column.ids, First(column, input.rows), &absent_);
    }
    SortOnce(&absent_);
    std::erase_if(absent_, [&](int64_t key) { return !has_moved(key); });
    Keep([&](int64_t key) { return !has_moved(key); });
    moves_ = table_->moves_;
    store_ = table_->tier_->store();
    record_ = table_->tier_->record();
    return absent_.empty();
  }

  // Reads the rows of absent keys that are below; inside or outside the gate.
  Status ReadBelow(const ParallelFor& parallel_for) {
    RecordsRead more;
    if (Status bad = ReadRecords(*store_, record_, std::exchange(absent_, {}), parallel_for, &more); !bad.ok()) return bad;
    below_ = Both(below_, more);
    return Status();
  }

  // Moves rows that were read up into memory, as far as there is room; does nothing while a writer is active. Call it inside the
  // gate, where no writer can finish: so a row that is not in memory is still as it was read. If memory runs out, the rows stay
  // below, where the next lookup finds them.
  void Raise() {
    if (below_.keys.empty()) return;
    std::unique_lock writer(table_->writer_, std::try_to_lock);
    if (!writer) return;
    try {
      table_->RaiseRead(below_);
    } catch (const std::bad_alloc&) {
    }
  }

  int64_t dim() const { return dim_; }
  RowFormat format() const { return format_; }

  // Calls use(i, row) for each key in order, and counts it; row is null if the key has none in either tier. It is a pipeline of
  // four stages per key: prefetch the bucket, read the bucket, search further if necessary, use the row.
  template <class Use>
  void ForEach(const int64_t* keys, int64_t n, const Use& use) const {
    const Bucket* homes[kRing];
    const float* rows[kRing];
    Ref refs[kRing];
    int64_t below = 0, misses = 0;
    const auto ask = [&](int64_t k) { homes[k % kRing] = index_->Ask(HashKey(keys[k])); };
    const auto read = [&](int64_t k) {
      const Ref ref = refs[k % kRing] = Index::FindIn(*homes[k % kRing], keys[k]);
      if (ref == kElsewhere) Prefetch(homes[k % kRing] + 1, 0);
      rows[k % kRing] = IsRow(ref) ? Asked(ref) : nullptr;
    };
    const auto search = [&](int64_t k) {
      if (refs[k % kRing] != kElsewhere) return;
      const Ref ref = index_->Find(keys[k], HashKey(keys[k]));
      if (IsRow(ref)) rows[k % kRing] = Asked(ref);
    };
    const auto finish = [&](int64_t k) {
      const float* row = rows[k % kRing];
      if (!row && has_tier_) {
        row = CameUp(keys[k]);
        if (!row) {
          row = Below(keys[k]);
          below += row != nullptr;
        }
      }
      misses += row == nullptr;
      use(k, row);
    };
    for (int64_t k = 0; k < std::min(kAsk, n); ++k) ask(k);
    for (int64_t k = 0; k < std::min(kRead, n); ++k) read(k);
    for (int64_t k = 0; k < std::min(kSearch, n); ++k) search(k);
    int64_t k = 0;
    for (; k + kAsk < n; ++k) {
      ask(k + kAsk);
      read(k + kRead);
      search(k + kSearch);
      finish(k);
    }
    for (; k < n; ++k) {
      if (k + kRead < n) read(k + kRead);
      if (k + kSearch < n) search(k + kSearch);
      finish(k);
    }
    table_->hits_.fetch_add(n - below - misses, std::memory_order_relaxed);
    table_->misses_.fetch_add(misses, std::memory_order_relaxed);
    if (has_tier_) table_->hits_below_.fetch_add(below, std::memory_order_relaxed);
  }

  // The value that a key without a row reads.
  void FillUnknown(int64_t key, float* out) const {
    if (training_) {
      table_->initial_.Fill(key, out);
    } else {
      std::fill_n(out, dim(), 0.0f);
    }
  }

 private:
  void AddTo(RecordsRead* to, const RecordsRead& from, int64_t k) const {
    const int64_t floats = record_.bytes() / static_cast<int64_t>(sizeof(float));
    to->keys.push_back(from.keys[k]);
    to->numbers.insert(to->numbers.end(), from.numbers.begin() + k * floats, from.numbers.begin() + (k + 1) * floats);
  }

  // From the records that were read, those of these keys.
  template <class Kept>
  void Keep(const Kept& kept) {
    RecordsRead still;
    for (int64_t k = 0; k < std::ssize(below_.keys); ++k) {
      if (kept(below_.keys[k])) AddTo(&still, below_, k);
    }
    below_ = std::move(still);
  }

  RecordsRead Both(RecordsRead& a, RecordsRead& b) const {
    if (a.keys.empty() || b.keys.empty()) return std::move(a.keys.empty() ? b : a);
    RecordsRead both;
    for (int64_t i = 0, k = 0; i < std::ssize(a.keys) || k < std::ssize(b.keys);) {
      const bool first = k == std::ssize(b.keys) || (i < std::ssize(a.keys) && a.keys[i] < b.keys[k]);
      AddTo(&both, first ? a : b, first ? i++ : k++);
    }
    return both;
  }

  // The distance of each stage from the key that is used.
  static constexpr int64_t kAsk = 48, kRead = 28, kSearch = 16;
  static constexpr uint64_t kRing = 64;

  const float* Asked(Ref ref) const {
    const float* row = rows_->Row(ref - 1);
    for (int64_t o = 0; o < words_; o += kLanes) Prefetch(row + o, 0);
    return row;
  }

  // The row that was read from below, or null.
  const float* Below(int64_t key) const {
    const auto at = std::lower_bound(below_.keys.begin(), below_.keys.end(), key);
    if (at == below_.keys.end() || *at != key) return nullptr;
    return reinterpret_cast<const float*>(below_.At(at - below_.keys.begin(), record_));
  }

  // The row, or null, if another lookup moved it up since this one looked: the row in memory is the valid one.
  const float* CameUp(int64_t key) const {
    const Ref ref = index_->Find(key, HashKey(key));
    return IsRow(ref) ? rows_->Row(ref - 1) : nullptr;
  }

  Table* table_;
  int64_t dim_, words_;
  RowFormat format_;
  bool training_;
  const Index* index_ = nullptr;
  const Rows* rows_ = nullptr;
  bool has_tier_ = false;
  // What was found below, its version, and its store.
  std::array<int64_t, Index::kShards> moves_{};
  std::shared_ptr<SegmentStore> store_;
  Record record_{0};
  std::vector<int64_t> absent_;
  RecordsRead below_;
};

namespace {

constexpr int64_t kBlockRows = 512;  // output rows per column before the next column: keeps its table's pages in the TLB

// Copies the rows of keys [begin, end) of a column, one output row per key.
void CopyRows(const TableReader& table, const LookupColumn& column, int64_t begin, int64_t end, float* out, int64_t width) {
  const int64_t* keys = column.ids + begin;
  table.ForEach(keys, end - begin, [&](int64_t i, const float* row) {
    float* to = out + (begin + i) * width;
    if (row && table.format() != RowFormat::kFloat32) {
      AddRow<true>(table.format(), row, table.dim(), to);
    } else if (row) {
      Copy(row, to, table.dim());
    } else {
      table.FillUnknown(keys[i], to);
    }
  });
}

// Rows [begin, end) of the output: the sum or mean of their keys' rows.
void Pool(const TableReader& table, const LookupColumn& column, int64_t begin, int64_t end, float* out, int64_t width) {
  const int64_t dim = table.dim(), first = column.splits[begin];
  std::vector<float> unknown(dim);
  for (int64_t b = begin; b < end; ++b) std::fill_n(out + b * width, dim, 0.0f);
  int64_t b = begin;
  const int64_t* keys = column.ids + first;
  table.ForEach(keys, column.splits[end] - first, [&](int64_t i, const float* row) {
    while (first + i >= column.splits[b + 1]) ++b;
    if (row && table.format() != RowFormat::kFloat32) {
      AddRow<false>(table.format(), row, dim, out + b * width);
      return;
    }
    if (!row) {
      table.FillUnknown(keys[i], unknown.data());
      row = unknown.data();
    }
    AddScaled(out + b * width, 1.0f, row, dim);
  });
  if (column.combiner != kMean) return;
  for (b = begin; b < end; ++b) {
    const int64_t count = column.splits[b + 1] - column.splits[b];
    if (count < 2) continue;
    for (int64_t o = 0; o < dim; ++o) out[b * width + o] /= static_cast<float>(count);
  }
}

// The tables' gates, each once, in the order of their addresses, so that lookups of the same tables in different orders can't
// deadlock.
class Passage {
 public:
  Passage(Table* const* tables, int64_t count) : tables_(tables, tables + count) {
    std::sort(tables_.begin(), tables_.end(), std::less<>());
    tables_.erase(std::unique(tables_.begin(), tables_.end()), tables_.end());
    for (Table* table : tables_) TableReader::GateOf(table).lock_shared();
  }
  ~Passage() {
    for (Table* table : tables_) TableReader::GateOf(table).unlock_shared();
  }

 private:
  std::vector<Table*> tables_;
};

}  // namespace

Status Lookup(const LookupInput& input, Table* const* tables, bool training, float* const* out,
              const ParallelFor& parallel_for) try {
  constexpr int kTries = 8;  // before a lookup reads from below inside the gate, where nothing can move
  int64_t ids = 0;
  for (int64_t c = 0; c < input.column_count; ++c) ids += First(input.columns[c], input.rows);
  std::vector<TableReader> readers;
  for (int64_t t = 0; t < input.table_count; ++t) readers.emplace_back(tables[t], training);
  std::optional<Passage> passage;
  for (int tried = 0;; ++tried) {
    passage.emplace(tables, input.table_count);
    std::vector<TableReader*> waiting;
    for (size_t t = 0; t < readers.size(); ++t) {
      if (!readers[t].Ready(input, static_cast<int64_t>(t))) waiting.push_back(&readers[t]);
    }
    if (waiting.empty()) break;
    if (tried < kTries) passage.reset();
    for (TableReader* reader : waiting) {
      if (Status bad = reader->ReadBelow(parallel_for); !bad.ok()) return bad;
    }
    if (passage) break;
  }
  parallel_for(input.rows, 50 * ids / std::max<int64_t>(1, input.rows) + 10, [&](int64_t first, int64_t last) {
    for (int64_t begin = first; begin < last; begin += kBlockRows) {
      const int64_t end = std::min(last, begin + kBlockRows);
      for (int64_t c = 0; c < input.column_count; ++c) {
        const LookupColumn& column = input.columns[c];
        float* to = out[column.output] + column.offset;
        const int64_t width = input.widths[column.output];
        if (column.combiner == kRows || !column.splits) {
          CopyRows(readers[column.table], column, First(column, begin), First(column, end), to, width);
        } else {
          Pool(readers[column.table], column, begin, end, to, width);
        }
      }
    }
  });
  for (TableReader& reader : readers) reader.Raise();
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

}  // namespace ctrlab::embedding
