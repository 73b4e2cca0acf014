// The parsing kernels. Rows are distributed over threads. A thread processes one column after the other, so that one kind of work
// and one column's texts are in the caches at a time. Each text is scanned twice: quickly to count its parts, then to encode them
// directly into their final place.

#include "kernels/parsing/parsing.h"

#include <algorithm>
#include <atomic>

#include "kernels/parsing/fingerprint.h"
#include "kernels/parsing/number.h"

namespace ctrlab {
namespace {

// The first cell, by column, that is not a number. Threads report faults in any order.
class FirstFault {
 public:
  explicit FirstFault(int64_t rows) : rows_(rows) {}

  void Report(int64_t column, int64_t row) {
    const int64_t cell = column * rows_ + row;
    int64_t known = cell_.load(std::memory_order_relaxed);
    while (cell < known && !cell_.compare_exchange_weak(known, cell, std::memory_order_relaxed)) {
    }
  }

  Fault get() const {
    const int64_t cell = cell_.load(std::memory_order_relaxed);
    return cell == kNone ? Fault{-1, -1} : Fault{cell / rows_, cell % rows_};
  }

 private:
  static constexpr int64_t kNone = INT64_MAX;
  const int64_t rows_;
  std::atomic<int64_t> cell_{kNone};
};

constexpr int64_t kCyclesPerByte = 3, kCyclesPerValue = 20;

// The estimated cycles of a row of a column, from its values in a few rows.
int64_t CyclesPerRow(const StringView* texts, const int64_t* splits, int64_t rows) {
  if (splits) return kCyclesPerValue * (1 + splits[rows] / rows);
  if (!texts) return 1;
  int64_t bytes = 0, looked = std::min<int64_t>(rows, 16);
  for (int64_t i = 0; i < looked; ++i) bytes += texts[i * (rows / looked)].size;
  return kCyclesPerValue + kCyclesPerByte * bytes / looked;
}

template <class Input>
int64_t CyclesPerRow(const Input& input) {
  int64_t cycles = 10;
  for (int64_t c = 0; input.rows > 0 && c < input.column_count; ++c) {
    cycles += CyclesPerRow(input.columns[c].texts, input.columns[c].splits, input.rows);
  }
  return cycles;
}

int64_t KeptOf(const IdSource& column, int64_t length) {
  return column.max_length > 0 ? std::min(column.max_length, length) : length;
}

// A vocabulary has few words, so a linear search is enough.
int64_t PlaceAmong(const StringView* words, int64_t count, const char* p, int64_t n) {
  for (int64_t i = 0; i < count; ++i) {
    if (words[i].size == n && std::memcmp(words[i].data, p, n) == 0) return i;
  }
  return -1;
}

// Converts values of one column to ids. Returns false if a value is not an id.
template <Encoding encoding>
class Encoder {
 public:
  explicit Encoder(const IdSource& column) : column_(column) {}

  // Row b, written to its place in `ids`.
  bool Row(int64_t b, const int64_t* splits, int64_t* ids) const {
    int64_t* const out = ids + (splits ? splits[b] : b);
    if (column_.separator.size > 0) return Parts(column_.texts[b], splits[b + 1] - splits[b], out);
    const int64_t end = column_.splits ? column_.splits[b + 1] : b + 1, kept = splits ? splits[b + 1] - splits[b] : 1;
    bool good = true;
    for (int64_t k = 0; k < kept; ++k) {
      const int64_t i = end - kept + k;
      if (column_.texts) {
        good &= Value(column_.texts[i].data, column_.texts[i].size, out + k);
      } else {
        out[k] = column_.integers[i];
        good &= out[k] >= LeastId(column_) && out[k] < column_.buckets;
      }
    }
    return good;
  }

 private:
  bool Value(const char* p, int64_t n, int64_t* id) const {
    if constexpr (encoding == Encoding::kHash) {
      *id = static_cast<int64_t>(Fingerprint64(p, n) % static_cast<uint64_t>(column_.buckets));
      return true;
    } else if constexpr (encoding == Encoding::kVocabulary) {
      *id = PlaceAmong(column_.words, column_.buckets, p, n);
      return true;
    } else {
      return ParseInt(p, n, id) && *id >= 0 && *id < column_.buckets;
    }
  }

  bool Parts(StringView text, int64_t kept, int64_t* ids) const {
    // Parts before the last `kept` are skipped; there are some only if the list was shortened.
    const bool shortened = column_.max_length > 0 && kept == column_.max_length;
    int64_t skip = shortened ? CountParts(text, column_.separator) - kept : 0;
    bool good = true;
    ForEachPart(text, column_.separator, [&](const char* p, int64_t n) {
      if (skip > 0) {
        --skip;
      } else {
        good &= Value(p, n, ids++);
      }
    });
    return good;
  }

  const IdSource& column_;
};

template <Encoding encoding>
void EncodeRows(const IdSource& column, int64_t c, int64_t begin, int64_t end, const int64_t* splits, int64_t* ids,
                FirstFault& fault) {
  const Encoder<encoding> encoder(column);
  for (int64_t b = begin; b < end; ++b) {
    if (!encoder.Row(b, splits, ids)) return fault.Report(c, b);
  }
}

// The mean of the numbers in a text, summed in order; false if a part is not a number.
bool MeanOfText(StringView text, StringView separator, float* mean) {
  const char* const end = text.data + text.size;
  float sum = 0;
  int64_t count = 0;
  bool good = true;
  ForEachPart(text, separator, [&](const char* p, int64_t n) {
    float value = 0;
    good &= ParseFloat(p, n, &value, end - p);
    sum += value;
    ++count;
  });
  *mean = count > 0 ? sum / static_cast<float>(count) : 0;
  return good;
}

float MeanOf(const float* begin, const float* end) {
  float sum = 0;
  for (const float* p = begin; p != end; ++p) sum += *p;
  return begin != end ? sum / static_cast<float>(end - begin) : 0;
}

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

void ctrlab_id_splits(const IdInput* input, int64_t* const* splits, const ParallelFor* parallel_for) {
  const int64_t rows = input->rows;
  (*parallel_for)(rows, CyclesPerRow(*input) / 8, [&](int64_t begin, int64_t end) {
    for (int64_t c = 0; c < input->column_count; ++c) {
      const IdSource& column = input->columns[c];
      if (!splits[c]) continue;
      for (int64_t b = begin; b < end; ++b) {
        const int64_t length =
            column.splits ? column.splits[b + 1] - column.splits[b] : CountParts(column.texts[b], column.separator);
        splits[c][b + 1] = KeptOf(column, length);
      }
    }
  });
  for (int64_t c = 0; c < input->column_count; ++c) {
    if (!splits[c]) continue;
    splits[c][0] = 0;
    for (int64_t b = 0; b < rows; ++b) splits[c][b + 1] += splits[c][b];
  }
}

void ctrlab_parse_ids(const IdInput* input, const int64_t* const* splits, int64_t* const* ids, Fault* fault,
                      const ParallelFor* parallel_for) {
  FirstFault first(input->rows);
  (*parallel_for)(input->rows, CyclesPerRow(*input), [&](int64_t begin, int64_t end) {
    for (int64_t c = 0; c < input->column_count; ++c) {
      const IdSource& column = input->columns[c];
      if (column.encoding == Encoding::kHash) {
        EncodeRows<Encoding::kHash>(column, c, begin, end, splits[c], ids[c], first);
      } else if (column.encoding == Encoding::kVocabulary) {
        EncodeRows<Encoding::kVocabulary>(column, c, begin, end, splits[c], ids[c], first);
      } else {
        EncodeRows<Encoding::kIdentity>(column, c, begin, end, splits[c], ids[c], first);
      }
    }
  });
  *fault = first.get();
}

void ctrlab_parse_numbers(const NumberInput* input, float* out, Fault* fault, const ParallelFor* parallel_for) {
  FirstFault first(input->rows);
  const int64_t width = input->column_count;
  (*parallel_for)(input->rows, CyclesPerRow(*input), [&](int64_t begin, int64_t end) {
    for (int64_t c = 0; c < width; ++c) {
      const NumberSource& column = input->columns[c];
      for (int64_t b = begin; b < end; ++b) {
        float value;
        if (column.texts) {
          if (!MeanOfText(column.texts[b], column.separator, &value)) first.Report(c, b);
        } else if (column.splits) {
          value = MeanOf(column.numbers + column.splits[b], column.numbers + column.splits[b + 1]);
        } else {
          value = column.numbers[b];
        }
        out[b * width + c] = Transformed(column, value);
      }
    }
  });
  *fault = first.get();
}
