// Numbers of a protocol buffer's repeated field, packed or not: what both of the processor's protocols share.

#pragma once

#include "processor/types.h"
#include "processor/wire.h"

namespace ctrlab::processor {

enum class Numbers { kGood, kMalformed, kTooLarge };

// Calls put(value) with each number in the fields with this number. Fields of fixed width are floats, the others varints.
template <class T, class Put>
Numbers ForEachNumber(std::string_view message, uint32_t wanted, const Put& put) {
  bool fits = true;
  const auto put_varint = [&](uint64_t number) {
    T value{};
    fits = FromVarint(number, &value) && fits;
    put(value);
  };
  WireReader fields(message);
  while (fields.Next()) {
    if (fields.field() != wanted) continue;
    if constexpr (std::is_floating_point_v<T>) {
      const bool fixed = sizeof(T) == 4 ? fields.is_fixed32() : fields.is_fixed64();
      if (!fixed && !fields.is_bytes()) return Numbers::kMalformed;
      const std::string_view packed = fields.bytes();
      if (packed.size() % sizeof(T)) return Numbers::kMalformed;
      for (size_t k = 0; k < packed.size(); k += sizeof(T)) {
        T value;
        std::memcpy(&value, packed.data() + k, sizeof value);
        put(value);
      }
    } else if (fields.is_number()) {
      put_varint(static_cast<uint64_t>(fields.number()));
    } else if (fields.is_bytes()) {
      WireReader packed(fields.bytes());
      while (packed.More()) {
        const uint64_t number = packed.Varint();
        if (packed.ok()) put_varint(number);
      }
      if (!packed.ok()) return Numbers::kMalformed;
    } else {
      return Numbers::kMalformed;
    }
  }
  return !fields.ok() ? Numbers::kMalformed : fits ? Numbers::kGood : Numbers::kTooLarge;
}

}  // namespace ctrlab::processor
