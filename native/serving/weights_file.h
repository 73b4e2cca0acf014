// The weights of an exported version, or an update of them to those of a later step, as a file of records that is read once, from
// its beginning to its end.
//
// Framing and checksums are those of a TFRecord file (tensorflow/core/lib/io/record_writer.h): the length as u64, its masked
// CRC-32C, the data, its masked CRC-32C. So TensorFlow's own writer writes it: ctrlab/serving/weights.py. The data is a head of 24
// bytes, and then arrays, all little-endian:
//
//   kind, index (int32)     first, count (int64)    arrays
//   begin   format          u       s               the first record: the u-th update of a version, u = 0: the version itself. Step s
//                                                   of the training; when, int64, microseconds since 1970; the bundle's name
//   rows    table           -       n               keys int64 [n], values float32 [n, D]: rows under any keys; in an update, of any
//                                                   table. A table with rows on disk has frequencies, int64 [n], between the two
//   removed table           -       n               keys int64 [n], which have no row any more: in an update
//   run     table           r       n               values float32 [n, D]: the rows r, r + 1, ...
//   dense   tensor          b       n               n bytes of a tensor, from its byte b
//   end     -               -       n               the last record: n records stand before it
//
// Where the graph has packed rows for a table, its values are those of kernels/lookup/row_format.h: [n, words of 4 bytes].

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/files.h"
#include "store/status.h"

namespace ctrlab::serving {

using embedding::Status;

enum class RecordKind : int32_t { kBegin = 0, kRows = 1, kRun = 2, kDense = 3, kEnd = 4, kRemoved = 5 };

// The moment that weights come from.
struct Moment {
  int64_t update = 0;  // number of the version's update; 0: the version itself
  int64_t step = 0;    // step of the training
  int64_t micros = 0;  // when they were read from the model, in microseconds since 1970
};

struct Record {
  RecordKind kind;
  int32_t index;
  int64_t first, count;
  const char* arrays;  // 8-byte aligned; valid until the next record is read
  int64_t bytes;       // the arrays' size
};

class WeightsFile {
 public:
  static constexpr int64_t kMostBytes = int64_t{64} << 20;  // the largest record
  static constexpr int32_t kFormat = 1;

  // Refuses a file that does not begin like one of this format.
  static Status Open(const std::string& path, std::unique_ptr<WeightsFile>* file);

  const Moment& moment() const { return moment_; }
  // The name of the bundle to which the weights belong.
  const std::string& bundle() const { return bundle_; }

  // The next record that is neither the first nor the last. `more` is false when there is none, and the file is whole.
  Status Next(Record* record, bool* more);

 private:
  WeightsFile(int fd, std::string path) : file_(fd), path_(std::move(path)) {}

  Status Read(Record* record);
  Status Damaged(const char* how) const;

  const embedding::OwnedFile file_;
  const std::string path_;
  int64_t place_ = 0, records_ = 0;
  Moment moment_;
  std::string bundle_;
  std::vector<int64_t> data_;  // int64, for its alignment
};

}  // namespace ctrlab::serving
