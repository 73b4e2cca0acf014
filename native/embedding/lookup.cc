// The lookup of many columns: block of rows by block, column by column. A key's way through memory is two steps, its bucket and its
// row, each of which is asked for some keys before it is used, so that several are on their way at once.

#include "embedding/lookup.h"

#include <algorithm>
#include <functional>
#include <new>
#include <vector>

#include "kernels/simd.h"

namespace ctrlab::embedding {

// What lookups see of a table, between the gate's lock and unlock.
class TableReader {
 public:
  TableReader(Table* table, bool training) : table_(table), index_(&table->content_->index), rows_(table->content_->rows.get()), training_(training) {}

  static Gate& GateOf(Table* table) { return table->gate_; }

  int64_t dim() const { return rows_->dim(); }

  // Calls use(i, row) for each key in turn; row is null where the key has none.
  template <class Use>
  void ForEach(const int64_t* keys, int64_t n, const Use& use) const {
    uint64_t hashes[kRing];
    const float* rows[kRing];
    int64_t hits = 0;
    for (int64_t i = -2 * kAhead; i < n; ++i) {
      if (const int64_t k = i + 2 * kAhead; k < n) {
        hashes[k % kRing] = HashKey(keys[k]);
        index_->Ask(hashes[k % kRing]);
      }
      if (const int64_t k = i + kAhead; k >= 0 && k < n) {
        const Ref ref = index_->Find(keys[k], hashes[k % kRing]);
        const float* row = nullptr;
        if (IsRow(ref)) {
          row = rows_->Row(ref - 1);
          for (int64_t o = 0; o < dim(); o += kLanes) Prefetch(row + o, 0);
          ++hits;
        }
        rows[k % kRing] = row;
      }
      if (i >= 0) use(i, rows[i % kRing]);
    }
    table_->hits_.fetch_add(hits, std::memory_order_relaxed);
    table_->misses_.fetch_add(n - hits, std::memory_order_relaxed);
  }

  // What a key without a row reads.
  void FillUnknown(int64_t key, float* out) const {
    if (training_) {
      table_->initial_.Fill(key, out);
    } else {
      std::fill_n(out, dim(), 0.0f);
    }
  }

 private:
  static constexpr int64_t kAhead = 16, kRing = 64;

  Table* table_;
  const Index* index_;
  const Rows* rows_;
  bool training_;
};

namespace {

constexpr int64_t kBlockRows = 512;  // rows of the output that a column fills before the next: its table's pages stay known

int64_t First(const LookupColumn& column, int64_t b) { return column.splits ? column.splits[b] : b; }

void Copy(const float* from, float* to, int64_t n) {
  if (n < kLanes) {
    std::copy_n(from, n, to);
    return;
  }
  for (int64_t o = 0; o + kLanes < n; o += kLanes) Store(to + o, Load(from + o));
  Store(to + n - kLanes, Load(from + n - kLanes));
}

// Keys [begin, end) of a column, a row of the output each.
void CopyRows(const TableReader& table, const LookupColumn& column, int64_t begin, int64_t end, float* out, int64_t width) {
  const int64_t* keys = column.ids + begin;
  table.ForEach(keys, end - begin, [&](int64_t i, const float* row) {
    float* to = out + (begin + i) * width;
    if (row) {
      Copy(row, to, table.dim());
    } else {
      table.FillUnknown(keys[i], to);
    }
  });
}

// Rows [begin, end) of the output, the sum or mean of their keys' rows.
void Pool(const TableReader& table, const LookupColumn& column, int64_t begin, int64_t end, float* out, int64_t width) {
  const int64_t dim = table.dim(), first = column.splits[begin];
  std::vector<float> unknown(dim);
  for (int64_t b = begin; b < end; ++b) std::fill_n(out + b * width, dim, 0.0f);
  int64_t b = begin;
  const int64_t* keys = column.ids + first;
  table.ForEach(keys, column.splits[end] - first, [&](int64_t i, const float* row) {
    while (first + i >= column.splits[b + 1]) ++b;
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

// The tables' gates, each once, in the order of their addresses: lookups of the same tables in another order don't wait in a ring.
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

Status Lookup(const LookupInput& input, Table* const* tables, bool training, float* const* out, const ParallelFor& parallel_for) {
  const Passage passage(tables, input.table_count);
  std::vector<TableReader> readers;
  for (int64_t t = 0; t < input.table_count; ++t) readers.emplace_back(tables[t], training);
  int64_t ids = 0;
  for (int64_t c = 0; c < input.column_count; ++c) ids += First(input.columns[c], input.rows);
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
  return Status();
}

}  // namespace ctrlab::embedding
