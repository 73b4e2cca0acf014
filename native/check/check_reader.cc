// The Parquet reader's rows without TensorFlow, for sanitizers: check_reader MODE SHARD COUNT FILE...
//
// Reads each file's columns x (float, missing values become 0.5) and past (lists of int32) in blocks. MODE "order" takes rows in
// file order; "mixed" takes them in reversed groups of thirty, over two epochs. Prints each row's number and the sum of its
// values.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "reader/rows.h"

namespace {

using namespace ctrlab::parquet;

arrow::Status Check(bool mixed, Shard shard, std::vector<std::string> files) {
  std::vector<ColumnSpec> columns(3);
  columns[0] = {.name = "x", .kind = Kind::kFloat, .form = ColumnSpec::kOne, .fallback = "0.5", .separator = ""};
  columns[1] = {.name = "past", .kind = Kind::kInt32, .form = ColumnSpec::kList, .fallback = "", .separator = ""};
  columns[2] = {.name = "word", .kind = Kind::kText, .form = ColumnSpec::kOne, .fallback = "?", .separator = ""};
  ARROW_ASSIGN_OR_RAISE(const Plan plan, MakePlan(std::move(files), std::move(columns)));
  Window window(plan, shard);
  std::vector<int64_t> wanted;
  for (int64_t row = 0; row < 2 * plan.rows; ++row) {
    if (row % plan.rows % shard.count == shard.index) wanted.push_back(row);
  }
  const int64_t step = 30, count = static_cast<int64_t>(wanted.size());
  for (int64_t start = 0; start < count; start += step) {
    const int64_t size = std::min(step, count - start);
    int64_t* const rows = wanted.data() + start;
    if (mixed) std::reverse(rows, rows + size);
    std::vector<ctrlab::parquet::Run> runs;
    ARROW_RETURN_NOT_OK(window.Take(rows, size, &runs));
    std::vector<float> x(size);
    CopyNumbers(runs, 0, sizeof(float), x.data());
    std::vector<int64_t> splits(size + 1);
    std::vector<int32_t> past(CopySplits(runs, 1, splits.data()));
    CopyEntries(runs, 1, sizeof(int32_t), past.data());
    std::vector<size_t> lengths;
    EachText(runs, 2, [&](std::string_view word) { lengths.push_back(word.size()); });
    for (int64_t i = 0; i < size; ++i) {
      double sum = x[i] + static_cast<double>(lengths.at(i));
      for (int64_t entry = splits[i]; entry < splits[i + 1]; ++entry) sum += past.at(entry);
      std::printf("%lld %.9g\n", static_cast<long long>(rows[i]), sum);
    }
  }
  return arrow::Status::OK();
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) return 2;
  const Shard shard{std::atoll(arguments[2]), std::atoll(arguments[3])};
  const arrow::Status status = Check(!std::strcmp(arguments[1], "mixed"), shard, {arguments + 4, arguments + count});
  if (!status.ok()) std::printf("%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
