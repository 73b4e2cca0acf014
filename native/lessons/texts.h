// What the cell of the lesson on requests defines: where each text of a tensor of texts is.

#pragma once

#include <cstddef>
#include <cstdint>

struct Text {
  const char* data;
  size_t size;
};

// Finds texts that each stand behind their length, four bytes, the lowest first.
//
//   data, size    the tensor's bytes, as a client sent them
//   found, most   room for so many texts
//
// Returns how many there are; -1 if the bytes are not valid texts, or there are more than `most`.
extern "C" int64_t texts(const char* data, size_t size, Text* found, size_t most);
