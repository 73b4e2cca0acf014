#include "reader/rows.h"

#include <algorithm>
#include <cstring>

#include "arrow/array/concatenate.h"
#include "arrow/io/file.h"
#include "parquet/file_reader.h"
#include "parquet/metadata.h"
#include "parquet/properties.h"
#include "parquet/schema.h"

namespace ctrlab::parquet {
namespace {

using arrow::Status;

using Footer = std::shared_ptr<::parquet::FileMetaData>;

constexpr int64_t kBlockRows = 65'536;

Status Damaged(const std::string& path, std::string_view why) {
  const std::string_view line = why.substr(0, why.find('\n'));
  return Status::IOError(path, " is no whole Parquet file (damaged, cut off, or another format): ", line);
}

const Status& StatusOf(const Status& status) { return status; }
template <class T>
const Status& StatusOf(const arrow::Result<T>& result) {
  return result.status();
}

// Calls `f` and turns exceptions (Parquet's own) into a status.
template <class F>
auto Guarded(const std::string& path, F f) -> decltype(f()) {
  try {
    auto result = f();
    if (!result.ok()) return Damaged(path, StatusOf(result).message());
    return result;
  } catch (const std::exception& error) {
    return Damaged(path, error.what());
  }
}

::parquet::ReaderProperties Properties() {
  ::parquet::ReaderProperties properties;
  properties.set_page_checksum_verification(true);
  return properties;
}

}  // namespace

arrow::Result<Plan> MakePlan(std::vector<std::string> files, std::vector<ColumnSpec> columns) {
  Plan plan;
  plan.files = std::move(files);
  plan.columns = std::move(columns);
  for (const ColumnSpec& spec : plan.columns) ARROW_RETURN_NOT_OK(CheckSpec(spec));
  for (int file = 0; file < static_cast<int>(plan.files.size()); ++file) {
    const auto read = [&]() -> arrow::Result<Footer> {
      ARROW_ASSIGN_OR_RAISE(auto source, arrow::io::ReadableFile::Open(plan.files[file]));
      return ::parquet::ReadMetaData(source);
    };
    ARROW_ASSIGN_OR_RAISE(Footer footer, Guarded(plan.files[file], read));
    const int64_t before = plan.rows;
    for (int group = 0; group < footer->num_row_groups(); ++group) {
      const int64_t rows = footer->RowGroup(group)->num_rows();
      if (rows < 0) return Damaged(plan.files[file], "a row group has a negative number of rows");
      for (int64_t first = 0; first < rows; first += kBlockRows) {
        plan.blocks.push_back({file, group, first, plan.rows - before, plan.rows, std::min(kBlockRows, rows - first)});
        plan.rows += plan.blocks.back().rows;
      }
    }
    plan.footers.push_back(std::move(footer));
  }
  if (!plan.rows) return Status::Invalid("Parquet files to read must have rows; the ", plan.files.size(), " files have none.");
  return plan;
}

Status Decoder::Open(const Block& block) {
  const std::string& path = plan_.files[block.file];
  batches_.reset();
  rest_.reset();
  group_ = -1;
  if (file_ != block.file) {
    reader_.reset();
    file_ = -1;
    ARROW_ASSIGN_OR_RAISE(auto source, arrow::io::ReadableFile::Open(path));
    auto file = ::parquet::ParquetFileReader::Open(source, Properties(), plan_.footers[block.file]);
    ::parquet::ArrowReaderProperties properties;
    properties.set_use_threads(true);
    properties.set_pre_buffer(true);
    properties.set_batch_size(kBlockRows);
    arrow::MemoryPool* const pool = arrow::default_memory_pool();
    ARROW_ASSIGN_OR_RAISE(reader_, ::parquet::arrow::FileReader::Make(pool, std::move(file), properties));
    leaves_.clear();
    const ::parquet::SchemaDescriptor* schema = plan_.footers[block.file]->schema();
    for (const ColumnSpec& spec : plan_.columns) {
      for (int leaf = 0; leaf < schema->num_columns(); ++leaf) {
        if (schema->GetColumnRoot(leaf)->name() == spec.name) leaves_.push_back(leaf);
      }
    }
    file_ = block.file;
  }
  ARROW_ASSIGN_OR_RAISE(batches_, reader_->GetRecordBatchReader({block.group}, leaves_));
  group_ = block.group;
  row_ = 0;
  return Status::OK();
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> Decoder::Next(int64_t most) {
  if (!rest_) {
    ARROW_RETURN_NOT_OK(batches_->ReadNext(&rest_));
    if (!rest_) return Status::Invalid("it has fewer rows than it says");
  }
  auto batch = rest_->Slice(0, most);
  rest_ = batch->num_rows() < rest_->num_rows() ? rest_->Slice(batch->num_rows()) : nullptr;
  row_ += batch->num_rows();
  return batch;
}

arrow::Result<std::vector<Column>> Decoder::Decode(const Block& block) {
  const std::string& path = plan_.files[block.file];
  arrow::RecordBatchVector pieces;
  const Status read = Guarded(path, [&]() -> Status {
    if (file_ != block.file || group_ != block.group || row_ > block.first) ARROW_RETURN_NOT_OK(Open(block));
    while (row_ < block.first) ARROW_RETURN_NOT_OK(Next(block.first - row_).status());
    for (int64_t left = block.rows; left > 0; left -= pieces.back()->num_rows()) {
      ARROW_ASSIGN_OR_RAISE(auto batch, Next(left));
      pieces.push_back(std::move(batch));
    }
    return Status::OK();
  });
  if (!read.ok()) {
    file_ = -1;
    return read;
  }
  std::vector<Column> columns;
  for (const ColumnSpec& spec : plan_.columns) {
    arrow::ArrayVector arrays;
    for (const auto& piece : pieces) {
      arrays.push_back(piece->GetColumnByName(spec.name));
      if (!arrays.back()) return Status::Invalid(path, " has no column '", spec.name, "', or several.");
    }
    std::shared_ptr<arrow::Array> array = arrays.front();
    if (arrays.size() > 1) {
      ARROW_ASSIGN_OR_RAISE(array, arrow::Concatenate(arrays));
    }
    ARROW_ASSIGN_OR_RAISE(Column column, MakeColumn(spec, std::move(array), path, block.place));
    columns.push_back(std::move(column));
  }
  return columns;
}

void Window::StartAt(int64_t first) {
  const int64_t row = first % plan_.rows;  // in the epoch
  const auto before = [](int64_t r, const Block& block) { return r < block.start; };
  const auto after = std::upper_bound(plan_.blocks.begin(), plan_.blocks.end(), row, before);
  next_ = first / plan_.rows * static_cast<int64_t>(plan_.blocks.size()) + (after - plan_.blocks.begin()) - 1;
  Extend();
  Held& held = window_.back();
  held.wanted -= shard_.Of(row) - shard_.Of(held.block->start);
}

void Window::Extend() {
  const int64_t count = static_cast<int64_t>(plan_.blocks.size());
  const Block& block = plan_.blocks[next_ % count];
  const int64_t wanted = shard_.Of(block.start + block.rows) - shard_.Of(block.start);
  window_.push_back({&block, next_ / count * plan_.rows + block.start, wanted});
  ++next_;
}

arrow::Result<Window::Held*> Window::Find(int64_t row) {
  while (window_.empty() || window_.back().start + window_.back().block->rows <= row) Extend();
  const auto before = [](int64_t r, const Held& held) { return r < held.start; };
  const auto after = std::upper_bound(window_.begin(), window_.end(), row, before);
  if (after != window_.begin() && (after - 1)->wanted > 0) return &*(after - 1);
  return Status::Invalid("Each row can be taken once in an epoch; row ", row % plan_.rows, " was asked for again.");
}

void Window::GiveFree() {
  for (Held& held : window_) {
    if (!held.wanted) held.columns = {};
  }
  for (; !window_.empty() && !window_.front().wanted; window_.pop_front()) decoded_ = std::max<int64_t>(decoded_ - 1, 0);
}

Status Window::Skip(const int64_t* rows, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    ARROW_ASSIGN_OR_RAISE(Held * held, Find(rows[i]));
    --held->wanted;
  }
  GiveFree();
  return Status::OK();
}

Status Window::Take(const int64_t* rows, int64_t count, std::vector<Run>* runs) {
  runs->clear();
  GiveFree();
  for (int64_t i = 0; i < count;) {
    ARROW_ASSIGN_OR_RAISE(Held* const found, Find(rows[i]));
    Held& held = *found;
    while (!held.decoded) {  // also decodes all blocks before it: they are wanted too, and come first in the file
      Held& next = window_[decoded_];
      if (next.wanted) {
        ARROW_ASSIGN_OR_RAISE(next.columns, decoder_.Decode(*next.block));
      }
      next.decoded = true;
      ++decoded_;
    }
    const int64_t end = held.start + held.block->rows;
    const int64_t first = i++;
    while (i < count && rows[i] == rows[i - 1] + 1 && rows[i] < end) ++i;
    held.wanted -= i - first;
    runs->push_back({&held.columns, rows[first] - held.start, i - first});
  }
  return Status::OK();
}

void CopyNumbers(const std::vector<Run>& runs, int column, int64_t width, void* out) {
  auto* to = static_cast<uint8_t*>(out);
  for (const Run& run : runs) {
    const uint8_t* from = (*run.columns)[column].numbers + run.start * width;
    if (run.rows == 1 && width == 4) {
      std::memcpy(to, from, 4);
    } else {
      std::memcpy(to, from, run.rows * width);
    }
    to += run.rows * width;
  }
}

int64_t CopySplits(const std::vector<Run>& runs, int column, int64_t* splits) {
  int64_t end = *splits = 0;
  for (const Run& run : runs) {
    const int32_t* offsets = (*run.columns)[column].offsets + run.start;
    const int64_t shift = end - offsets[0];
    for (int64_t i = 1; i <= run.rows; ++i) *++splits = offsets[i] + shift;
    end = *splits;
  }
  return end;
}

void CopyEntries(const std::vector<Run>& runs, int c, int64_t width, void* out) {
  auto* to = static_cast<uint8_t*>(out);
  for (const Run& run : runs) {
    const Column& column = (*run.columns)[c];
    const int64_t first = column.offsets[run.start], size = (column.offsets[run.start + run.rows] - first) * width;
    if (size) std::memcpy(to, column.numbers + first * width, size);
    to += size;
  }
}

}  // namespace ctrlab::parquet
