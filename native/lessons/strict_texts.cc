// Calls `texts` with bytes that end where the heap ends, and says what it found.
//
//   FILE    cases: a line "SIZE MOST", then SIZE bytes
//
// A line per case on stdout: "COUNT ALLOCATIONS", then "OFFSET LENGTH" of each text that was found.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <vector>

#include "lessons/texts.h"

namespace {

size_t allocations = 0;

}  // namespace

void* operator new(size_t size) {
  ++allocations;
  if (void* given = std::malloc(size)) return given;
  throw std::bad_alloc();
}

void operator delete(void* given) noexcept { std::free(given); }
void operator delete(void* given, size_t) noexcept { std::free(given); }

int main(int, char** words) {
  std::ifstream file(words[1], std::ios::binary);
  for (size_t size, most; file >> size >> most && file.get() == '\n';) {
    // From malloc, so that a sanitizer sees a read of the byte before and behind; one byte off, as tensors in a request are.
    const std::unique_ptr<char, void (*)(void*)> bytes(static_cast<char*>(std::malloc(size + 1)), std::free);
    char* data = bytes.get() + 1;
    file.read(data, static_cast<std::streamsize>(size));
    const std::unique_ptr<Text, void (*)(void*)> found(static_cast<Text*>(std::malloc(most * sizeof(Text))), std::free);
    const size_t before = allocations;
    const int64_t count = texts(data, size, found.get(), most);
    std::printf("%lld %zu", static_cast<long long>(count), allocations - before);
    if (count >= 0 && static_cast<size_t>(count) <= most) {
      for (int64_t n = 0; n < count; ++n) {
        const Text& text = found.get()[n];
        std::printf(" %td %zu", text.data ? text.data - data : 0, text.size);
      }
    }
    std::puts("");
  }
  return 0;
}
