// The lookup of many columns: block of rows by block, column by column. A key's way through memory is two steps, its bucket and
// its row, each of which is asked for some keys before it is used, so that several are on their way at once.

#include "embedding/lookup.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <mutex>
#include <new>
#include <vector>

#include "embedding/messages.h"
#include "kernels/simd.h"

namespace ctrlab::embedding {

// What lookups see of a table, between the gate's lock and unlock.
class TableReader {
 public:
  TableReader(Table* table, bool training)
      : table_(table),
        index_(&table->content_->index),
        rows_(table->content_->rows.get()),
        dim_(rows_->dim()),
        training_(training) {}

  static Gate& GateOf(Table* table) { return table->gate_; }

  bool has_tier() const { return table_->HasRowsBelow(); }

  // Reads those of these keys whose rows are below.
  Status ReadBelow(const std::vector<int64_t>& keys, const ParallelFor& parallel_for) {
    const int64_t bytes = table_->tier_->row_bytes();
    record_floats_ = bytes / static_cast<int64_t>(sizeof(float));
    return table_->tier_->ForEachOf(table_->Absent(keys.data(), std::ssize(keys)), parallel_for,
                                    [&](int64_t key, const char* record) {
                                      below_.push_back(key);
                                      records_.resize(records_.size() + record_floats_);
                                      std::memcpy(records_.data() + records_.size() - record_floats_, record, bytes);
                                    });
  }

  // Brings up what ReadBelow has read, as much as there is room for; nothing where a writer is at work. While the gate is held
  // none can end its work, so a row that is not in memory still is what was read.
  void Raise() {
    std::unique_lock writer(table_->writer_, std::try_to_lock);
    if (writer && !below_.empty()) (void)table_->RaiseRead(below_, reinterpret_cast<const char*>(records_.data()));
  }

  int64_t dim() const { return dim_; }

  // Calls use(i, row) for each key in turn, and counts it; row is null where the key has none in either tier. Four keys are in
  // work at a time: one whose bucket is asked for, one whose bucket is read, one that has to be looked for further, one whose row
  // is used.
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
      if (!row && has_tier()) {
        row = Below(keys[k]);
        below += row != nullptr;
        if (!row) row = CameUp(keys[k]);
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
    if (has_tier()) table_->hits_below_.fetch_add(below, std::memory_order_relaxed);
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
  // How many keys ahead of the one that is used each of the others is.
  static constexpr int64_t kAsk = 48, kRead = 28, kSearch = 16;
  static constexpr uint64_t kRing = 64;

  const float* Asked(Ref ref) const {
    const float* row = rows_->Row(ref - 1);
    for (int64_t o = 0; o < dim_; o += kLanes) Prefetch(row + o, 0);
    return row;
  }

  // The row that ReadBelow has read, or null.
  const float* Below(int64_t key) const {
    const auto at = std::lower_bound(below_.begin(), below_.end(), key);
    return at != below_.end() && *at == key ? records_.data() + (at - below_.begin()) * record_floats_ : nullptr;
  }

  // The row that was below and has come up before ReadBelow came to it, or null.
  const float* CameUp(int64_t key) const {
    const Ref ref = index_->Find(key, HashKey(key));
    return IsRow(ref) ? rows_->Row(ref - 1) : nullptr;
  }

  Table* table_;
  const Index* index_;
  const Rows* rows_;
  int64_t dim_;
  bool training_;
  std::vector<int64_t> below_;  // ascending
  std::vector<float> records_;  // of these, as the tier keeps them
  int64_t record_floats_ = 0;
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

// The tables' gates, each once, in the order of their addresses: lookups of the same tables in another order don't wait in a
// ring.
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

// All keys that a lookup has for a table.
std::vector<int64_t> KeysFor(const LookupInput& input, int64_t table) {
  std::vector<int64_t> keys;
  for (int64_t c = 0; c < input.column_count; ++c) {
    const LookupColumn& column = input.columns[c];
    if (column.table == table) keys.insert(keys.end(), column.ids, column.ids + First(column, input.rows));
  }
  return keys;
}

}  // namespace

Status Lookup(const LookupInput& input, Table* const* tables, bool training, float* const* out,
              const ParallelFor& parallel_for) try {
  int64_t ids = 0;
  for (int64_t c = 0; c < input.column_count; ++c) ids += First(input.columns[c], input.rows);
  const Passage passage(tables, input.table_count);
  std::vector<TableReader> readers;
  for (int64_t t = 0; t < input.table_count; ++t) {
    TableReader& reader = readers.emplace_back(tables[t], training);
    if (!reader.has_tier()) continue;
    if (Status bad = reader.ReadBelow(KeysFor(input, t), parallel_for); !bad.ok()) return bad;
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
