// The weights of an exported version, as a file of records that is read once, from its beginning to its end.
//
// Framing and checksums are those of a TFRecord file (tensorflow/core/lib/io/record_writer.h): the length as u64, its masked
// CRC-32C, the data, its masked CRC-32C. So TensorFlow's own writer writes it: ctrlab/serving/weights.py. The data is a head of 24
// bytes, and then arrays, all little-endian:
//
//   kind, index (int32)     first, count (int64)    arrays
//   begin   format          -       -               the first record
//   rows    table           -       n               keys int64 [n], values float32 [n, D]: rows under any keys. A table with rows
//                                                   on disk has frequencies, int64 [n], between the two
//   run     table           r       n               values float32 [n, D]: the rows r, r + 1, ...
//   dense   tensor          b       n               n bytes of a tensor, from its byte b
//   end     -               -       n               the last record: n records stand before it

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/files.h"
#include "store/status.h"

namespace ctrlab::serving {

using embedding::Status;

enum class RecordKind : int32_t { kBegin = 0, kRows = 1, kRun = 2, kDense = 3, kEnd = 4 };

struct Record {
  RecordKind kind;
  int32_t index;
  int64_t first, count;
  const char* arrays;  // 8-byte aligned; valid until the next record is read
  int64_t bytes;       // of the arrays
};

class WeightsFile {
 public:
  static constexpr int64_t kMostBytes = int64_t{64} << 20;  // of a record
  static constexpr int32_t kFormat = 1;

  // Refuses a file that does not begin like one of this format.
  static Status Open(const std::string& path, std::unique_ptr<WeightsFile>* file);

  // The next record that is neither the first nor the last. `more` is false when there is none, and the file is whole.
  Status Next(Record* record, bool* more);

 private:
  WeightsFile(int fd, std::string path) : file_(fd), path_(std::move(path)) {}

  Status Read(Record* record);
  Status Damaged(const char* how) const;

  const embedding::OwnedFile file_;
  const std::string path_;
  int64_t place_ = 0, records_ = 0;
  std::vector<int64_t> data_;  // int64, for its alignment
};

}  // namespace ctrlab::serving
