// The rows of Parquet files, again and again, and a window on them from which rows are taken in any order.
//
//   files     |  a  |      b      |          one after the other, then from the first on again
//   blocks    | 0 | 1 |  2  |  3  |          at most 65,536 rows of one row group: what is decoded at once
//   window        |~~~~~~~~~~~|              the blocks of which a row is still wanted
//
// A row has a number in the endless stream of epochs. Of `shard` (index, count) only the rows of an epoch with
// i % count == index are wanted, each once; a block whose rows have all been taken is given free, one of which none is wanted
// is not decoded. So memory is bounded by how far rows are out of order, not by the files.

#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "arrow/record_batch.h"
#include "parquet/arrow/reader.h"
#include "reader/columns.h"

namespace ctrlab::parquet {

struct Block {
  int file, group;
  int64_t first;  // row in the group
  int64_t start;  // row in the epoch
  int64_t rows;
};

// Which rows lie where; asked of the files' footers once.
struct Plan {
  std::vector<std::string> files;
  std::vector<ColumnSpec> columns;
  std::vector<std::shared_ptr<::parquet::FileMetaData>> footers;
  std::vector<Block> blocks;
  int64_t rows = 0;  // in an epoch
};

// Raises: a file is no Parquet, or holds no rows at all; a fallback is no number.
arrow::Result<Plan> MakePlan(std::vector<std::string> files, std::vector<ColumnSpec> columns);

struct Shard {
  int64_t index = 0, count = 1;

  // How many of the first `rows` rows of an epoch are wanted.
  int64_t Of(int64_t rows) const { return rows > index ? (rows - index + count - 1) / count : 0; }
};

// Decodes blocks, in falling or rising order, but rising is quicker.
class Decoder {
 public:
  explicit Decoder(const Plan& plan) : plan_(plan) {}
  arrow::Result<std::vector<Column>> Decode(const Block& block);

 private:
  arrow::Status Open(const Block& block);
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Next(int64_t most);

  const Plan& plan_;
  int file_ = -1, group_ = -1;
  int64_t row_ = 0;  // of the group: the next one that `batches_` gives
  std::vector<int> leaves_;
  std::unique_ptr<::parquet::arrow::FileReader> reader_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;  // ends before `reader_` does
  std::shared_ptr<arrow::RecordBatch> rest_;           // of the batch that `batches_` gave last
};

// Rows [start, start + rows) of a block.
struct Run {
  const std::vector<Column>* columns;
  int64_t start, rows;
};

class Window {
 public:
  Window(const Plan& plan, Shard shard) : plan_(plan), shard_(shard), decoder_(plan) {}

  // Marks rows as taken that are not needed.
  arrow::Status Skip(const int64_t* rows, int64_t count);
  // The rows with these numbers, as runs that hold until the next call.
  arrow::Status Take(const int64_t* rows, int64_t count, std::vector<Run>* runs);
  // Goes on from row `first` of the stream: none before it is wanted any more. Only before the first row is taken.
  void StartAt(int64_t first);

 private:
  struct Held {
    const Block* block;
    int64_t start;   // in the stream
    int64_t wanted;  // rows
    bool decoded = false;
    std::vector<Column> columns = {};
  };

  arrow::Result<Held*> Find(int64_t row);
  void Extend();
  void GiveFree();

  const Plan& plan_;
  const Shard shard_;
  Decoder decoder_;
  std::deque<Held> window_;
  int64_t next_ = 0;     // block of the stream behind the window
  int64_t decoded_ = 0;  // blocks at the window's beginning that were decoded or not wanted
};

// Numbers of `runs` to out; `width` bytes each.
void CopyNumbers(const std::vector<Run>& runs, int column, int64_t width, void* out);
// Row splits of lists, [rows + 1]; returns how many entries there are.
int64_t CopySplits(const std::vector<Run>& runs, int column, int64_t* splits);
// The lists' entries, one after the other.
void CopyEntries(const std::vector<Run>& runs, int column, int64_t width, void* out);

// Calls use(text) for each row, or for each entry of each row.
template <class Use>
void EachText(const std::vector<Run>& runs, int c, Use use) {
  for (const Run& run : runs) {
    const Column& column = (*run.columns)[c];
    const int64_t first = column.offsets ? column.offsets[run.start] : run.start;
    const int64_t last = column.offsets ? column.offsets[run.start + run.rows] : run.start + run.rows;
    for (int64_t i = first; i < last; ++i) use(column.text(i));
  }
}

// Calls use(text) for each row with its entries in one text.
template <class Use>
void EachJoined(const std::vector<Run>& runs, int c, const ColumnSpec& spec, Use use) {
  std::string text;
  for (const Run& run : runs) {
    const Column& column = (*run.columns)[c];
    for (int64_t row = run.start; row < run.start + run.rows; ++row) {
      text.clear();
      for (int64_t i = column.offsets[row]; i < column.offsets[row + 1]; ++i) {
        if (i > column.offsets[row]) text += spec.separator;
        text += column.text(i);
      }
      use(text.empty() ? std::string_view(spec.fallback) : std::string_view(text));
    }
  }
}

}  // namespace ctrlab::parquet
