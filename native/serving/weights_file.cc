#include "serving/weights_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>
#include <new>
#include <utility>

#include "store/crc32c.h"
#include "table/messages.h"

namespace ctrlab::serving {

using embedding::Crc32c;
using embedding::Problem;

namespace {

constexpr int64_t kHead = 24;

// TFRecord stores checksums in this form, because a checksum of data that contains its own checksum is weak.
uint32_t Masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

template <class Number>
Number At(const char* place) {
  Number number;
  std::memcpy(&number, place, sizeof number);
  return number;
}

}  // namespace

Status WeightsFile::Damaged(const char* how) const {
  return Problem("Weights are read as they were written; ", path_, " is damaged: ", how, " at byte ", place_,
                 ": export the model again.");
}

Status WeightsFile::Open(const std::string& path, std::unique_ptr<WeightsFile>* file) try {
  // A pipe would block without O_NONBLOCK.
  std::unique_ptr<WeightsFile> opened(new WeightsFile(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), path));
  if (opened->file_.fd() < 0) return embedding::SystemError("Can't open the weights " + path);
  struct stat about;
  if (fstat(opened->file_.fd(), &about) != 0 || !S_ISREG(about.st_mode)) {
    return Problem("A version's weights are a regular file; ", path, " is none.");
  }
  posix_fadvise(opened->file_.fd(), 0, 0, POSIX_FADV_SEQUENTIAL);
  Record record;
  if (Status bad = opened->Read(&record); !bad.ok()) return bad;
  if (record.kind != RecordKind::kBegin) return opened->Damaged("it does not begin like one");
  if (record.index != kFormat) {
    return Problem("This library reads weights of format ", kFormat, "; ", path, " is of format ", record.index,
                   ": export the model again.");
  }
  if (record.bytes < 8) return opened->Damaged("it does not say when it was written");
  opened->moment_ = {record.first, record.count, At<int64_t>(record.arrays)};
  opened->bundle_.assign(record.arrays + 8, record.bytes - 8);
  *file = std::move(opened);
  return Status();
} catch (const std::bad_alloc&) {
  return embedding::OutOfMemory();
}

Status WeightsFile::Next(Record* record, bool* more) try {
  if (Status bad = Read(record); !bad.ok()) return bad;
  *more = record->kind != RecordKind::kEnd;
  if (record->kind == RecordKind::kBegin) return Damaged("it begins twice");
  if (*more) return Status();
  if (record->count != records_ - 1) return Damaged("records are missing");
  struct stat about;
  if (fstat(file_.fd(), &about) != 0) return embedding::SystemError("Can't read the weights " + path_);
  if (about.st_size != place_) return Damaged("something stands behind its end");
  return Status();
} catch (const std::bad_alloc&) {
  return embedding::OutOfMemory();
}

Status WeightsFile::Read(Record* record) {
  constexpr int64_t kLength = 12, kSum = 4;
  char length[kLength], sum[kSum];
  if (Status bad = embedding::ReadFully(file_.fd(), path_, length, kLength, place_); !bad.ok()) return bad;
  const auto bytes = At<uint64_t>(length);
  if (At<uint32_t>(length + 8) != Masked(Crc32c(length, 8))) return Damaged("a length fails its checksum");
  if (bytes < kHead || bytes > kMostBytes) return Damaged("a record has an impossible length");
  data_.resize((bytes + 7) / 8);
  char* const data = reinterpret_cast<char*>(data_.data());
  if (Status bad = embedding::ReadFully(file_.fd(), path_, data, bytes, place_ + kLength); !bad.ok()) return bad;
  if (Status bad = embedding::ReadFully(file_.fd(), path_, sum, kSum, place_ + kLength + bytes); !bad.ok()) return bad;
  if (At<uint32_t>(sum) != Masked(Crc32c(data, bytes))) return Damaged("a record fails its checksum");
  *record = {static_cast<RecordKind>(At<int32_t>(data)),
             At<int32_t>(data + 4),
             At<int64_t>(data + 8),
             At<int64_t>(data + 16),
             data + kHead,
             static_cast<int64_t>(bytes) - kHead};
  place_ += kLength + bytes + kSum;
  ++records_;
  return Status();
}

}  // namespace ctrlab::serving
