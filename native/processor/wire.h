// Reads and writes the wire format of protocol buffers. Source: https://protobuf.dev/programming-guides/encoding/
//
// A message is a run of fields; each has a number, and a value of one of four types. Nothing is copied: a field of bytes, of text or
// of another message is a view of the message's own.

#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace ctrlab::processor {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are");

class WireReader {
 public:
  explicit WireReader(std::string_view message) : at_(message.data()), end_(at_ + message.size()) {}

  // The next field. False at the end of the message, and where it is malformed: see `ok`.
  bool Next() {
    if (!ok_ || at_ == end_) return false;
    const uint64_t tag = Varint();
    field_ = static_cast<uint32_t>(tag >> 3);
    if (tag >> 35 || field_ == 0) return ok_ = false;
    type_ = static_cast<int32_t>(tag & 7);
    switch (type_) {
      case kVarint:
        number_ = Varint();
        return ok_;
      case kFixed64:
        return Take(8);
      case kBytes:
        number_ = Varint();
        return ok_ && Take(number_);
      case kFixed32:
        return Take(4);
      default:
        return ok_ = false;  // groups, which no message here has
    }
  }

  bool ok() const { return ok_; }
  uint32_t field() const { return field_; }
  bool is_number() const { return type_ == kVarint; }
  bool is_bytes() const { return type_ == kBytes; }
  bool is_fixed32() const { return type_ == kFixed32; }
  bool is_fixed64() const { return type_ == kFixed64; }
  int64_t number() const { return static_cast<int64_t>(number_); }
  std::string_view bytes() const { return bytes_; }

  // What is not read yet.
  std::string_view rest() const { return {at_, static_cast<size_t>(end_ - at_)}; }

  // Reads numbers that stand one behind the other: a packed field.
  bool More() const { return ok_ && at_ != end_; }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && at_ != end_; shift += 7) {
      const auto byte = static_cast<uint8_t>(*at_++);
      value |= uint64_t{byte & 127u} << shift;
      if (byte < 128) return value;
    }
    ok_ = false;
    return 0;
  }

 private:
  enum { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  bool Take(uint64_t bytes) {
    if (bytes > static_cast<uint64_t>(end_ - at_)) return ok_ = false;
    bytes_ = {at_, bytes};
    at_ += bytes;
    return true;
  }

  const char *at_, *end_;
  bool ok_ = true;
  uint32_t field_ = 0;
  int32_t type_ = 0;
  uint64_t number_ = 0;
  std::string_view bytes_;
};

class WireWriter {
 public:
  void Number(uint32_t field, uint64_t value) {
    Varint(uint64_t{field} << 3);
    Varint(value);
  }
  void Bytes(uint32_t field, std::string_view bytes) {
    Varint(uint64_t{field} << 3 | 2);
    Varint(bytes.size());
    out_ += bytes;
  }
  // A number that stands behind others: in a packed field.
  void Varint(uint64_t value) {
    for (; value >= 128; value >>= 7) out_ += static_cast<char>(value | 128);
    out_ += static_cast<char>(value);
  }
  std::string_view view() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

}  // namespace ctrlab::processor
