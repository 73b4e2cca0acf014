// The parser of texts as it is often written: each text becomes a string of its own. A lesson times it beside views.

#include <cstring>
#include <string>
#include <vector>

#include "lessons/texts.h"

extern "C" int64_t texts(const char* data, size_t size, Text* found, size_t most) {
  static std::vector<std::string> copies;  // until the next call, so that `found` may point into them
  copies.clear();
  copies.reserve(most);
  for (size_t at = 0; at < size;) {
    uint32_t length;
    if (copies.size() == most || size - at < sizeof length) return -1;
    std::memcpy(&length, data + at, sizeof length);
    at += sizeof length;
    if (length > size - at) return -1;
    const std::string& copy = copies.emplace_back(data + at, length);
    found[copies.size() - 1] = {copy.data(), copy.size()};
    at += length;
  }
  return static_cast<int64_t>(copies.size());
}
