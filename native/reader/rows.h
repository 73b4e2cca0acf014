// The rows of Parquet files in an endless stream of epochs, and a window over it from which rows are taken in any order.
//
//   files     |  a  |      b      |          one after the other, then again from the first
//   blocks    | 0 | 1 |  2  |  3  |          at most 65,536 rows of one row group: the unit of decoding
//   window        |~~~~~~~~~~~|              the blocks with rows that are still wanted
//
// Rows are numbered over the endless stream. With `shard` (index, count) only an epoch's rows with i % count == index are wanted,
// each once. A block is freed when its last wanted row was taken; a block without wanted rows is never decoded. So the disorder
// of the rows bounds the memory, not the size of the files.

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
  int64_t first;  // first row in the row group
  int64_t place;  // first row in the file
  int64_t start;  // first row in the epoch
  int64_t rows;
};

// The location of all rows, read once from the files' footers.
struct Plan {
  std::vector<std::string> files;
  std::vector<ColumnSpec> columns;
  std::vector<std::shared_ptr<::parquet::FileMetaData>> footers;
  std::vector<Block> blocks;
  int64_t rows = 0;  // per epoch
};

// Fails if a file is not Parquet, if the files have no rows, or if a numeric column's fallback is not a number.
arrow::Result<Plan> MakePlan(std::vector<std::string> files, std::vector<ColumnSpec> columns);

struct Shard {
  int64_t index = 0, count = 1;

  // The number of wanted rows among an epoch's first `rows` rows.
  int64_t Of(int64_t rows) const { return rows > index ? (rows - index + count - 1) / count : 0; }
};

// Decodes blocks in any order; ascending order is faster.
class Decoder {
 public:
  explicit Decoder(const Plan& plan) : plan_(plan) {}
  arrow::Result<std::vector<Column>> Decode(const Block& block);

 private:
  arrow::Status Open(const Block& block);
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Next(int64_t most);

  const Plan& plan_;
  int file_ = -1, group_ = -1;
  int64_t row_ = 0;  // in the row group: the next row of `batches_`
  std::vector<int> leaves_;
  std::unique_ptr<::parquet::arrow::FileReader> reader_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;  // must be destroyed before `reader_`
  std::shared_ptr<arrow::RecordBatch> rest_;           // of the last batch from `batches_`
};

// Rows [start, start + rows) of a block.
struct Run {
  const std::vector<Column>* columns;
  int64_t start, rows;
};

class Window {
 public:
  Window(const Plan& plan, Shard shard) : plan_(plan), shard_(shard), decoder_(plan) {}

  // Marks rows as taken without reading them.
  arrow::Status Skip(const int64_t* rows, int64_t count);
  // The rows with these numbers, as runs that are valid until the next call.
  arrow::Status Take(const int64_t* rows, int64_t count, std::vector<Run>* runs);
  // Starts at row `first` of the stream; earlier rows are not wanted. Call it before the first row is taken.
  void StartAt(int64_t first);

 private:
  struct Held {
    const Block* block;
    int64_t start;   // in the stream
    int64_t wanted;  // number of wanted rows
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
  int64_t next_ = 0;     // stream's block after the window
  int64_t decoded_ = 0;  // blocks at the start of the window that are decoded or not wanted
};

// Copies the numbers of `runs` to out; `width` bytes each.
void CopyNumbers(const std::vector<Run>& runs, int column, int64_t width, void* out);
// Row splits of lists, [rows + 1]; returns the number of entries.
int64_t CopySplits(const std::vector<Run>& runs, int column, int64_t* splits);
// Copies the entries of lists, one after the other.
void CopyEntries(const std::vector<Run>& runs, int column, int64_t width, void* out);

// Calls use(text) for each row, or for each entry in each row.
template <class Use>
void EachText(const std::vector<Run>& runs, int c, Use use) {
  for (const Run& run : runs) {
    const Column& column = (*run.columns)[c];
    const int64_t first = column.offsets ? column.offsets[run.start] : run.start;
    const int64_t last = column.offsets ? column.offsets[run.start + run.rows] : run.start + run.rows;
    for (int64_t i = first; i < last; ++i) use(column.text(i));
  }
}

// Calls use(text) for each row, with its entries joined into one text.
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
