// The function that a cell of the lesson on requests defines: it finds where each text of a text tensor lies.

#pragma once

#include <cstddef>
#include <cstdint>

struct Text {
  const char* data;
  size_t size;
};

// Finds texts, each of which follows its length: four bytes, the lowest first.
//
//   data, size    the tensor's bytes, as a client sent them
//   found, most   an array for at most `most` texts
//
// Returns how many there are; -1 if the bytes are not valid texts, or there are more than `most`.
extern "C" int64_t texts(const char* data, size_t size, Text* found, size_t most);
