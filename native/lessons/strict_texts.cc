// Calls `texts` twice with the bytes of each case, which end where the heap ends, and says what it found.
//
//   CASES RESULT    files. A case: a line "SIZE MOST COUNT", a line "OFFSET LENGTH" for each of COUNT places that must not be read,
//                   then SIZE bytes
//
// A line per call in RESULT: "COUNT ALLOCATIONS CHANGED", then "OFFSET LENGTH" of each text that was found. CHANGED is the first
// byte of the request that is another one behind the call, or -1.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "lessons/texts.h"

// Of the sanitizers' runtime; its headers are not installed with every compiler.
extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, size_t), void (*)(const volatile void*));
void __asan_poison_memory_region(const volatile void* data, size_t size);
void __asan_unpoison_memory_region(const volatile void* data, size_t size);
}

namespace {

constexpr int kCalls = 2;
size_t allocations = 0;

template <typename T>
std::unique_ptr<T, void (*)(void*)> Malloced(size_t count) {
  return {static_cast<T*>(std::malloc(count * sizeof(T))), std::free};
}

void Call(const std::vector<char>& request, const std::vector<std::pair<size_t, size_t>>& unread, size_t most,
          std::FILE* result) {
  // From malloc, so that a sanitizer sees a read of the byte before and behind; one byte off, as tensors in a request are.
  const auto bytes = Malloced<char>(request.size() + 1);
  char* const data = bytes.get() + 1;
  std::copy(request.begin(), request.end(), data);
  const auto found = Malloced<Text>(most);
  for (const auto& [at, length] : unread) __asan_poison_memory_region(data + at, length);
  const size_t before = allocations;
  const int64_t count = texts(data, request.size(), found.get(), most);
  const size_t asked = allocations - before;
  __asan_unpoison_memory_region(data, request.size());
  const auto changed = std::mismatch(request.begin(), request.end(), data).first;
  std::fprintf(result, "%lld %zu %td", static_cast<long long>(count), asked,
               changed == request.end() ? -1 : changed - request.begin());
  for (int64_t n = 0; n < count && static_cast<size_t>(count) <= most; ++n) {
    const Text& text = found.get()[n];
    std::fprintf(result, " %td %zu", text.data ? text.data - data : 0, text.size);
  }
  std::fputs("\n", result);
  std::fflush(result);  // the next call may be the last
}

}  // namespace

int main(int, char** words) {
  __sanitizer_install_malloc_and_free_hooks([](const volatile void*, size_t) { ++allocations; }, [](const volatile void*) {});
  std::ifstream file(words[1], std::ios::binary);
  std::FILE* const result = std::fopen(words[2], "w");
  for (size_t size, most, count; file >> size >> most >> count;) {
    std::vector<std::pair<size_t, size_t>> unread(count);
    for (auto& [at, length] : unread) file >> at >> length;
    std::vector<char> request(size);
    file.ignore(1).read(request.data(), static_cast<std::streamsize>(size));
    for (int n = 0; n < kCalls; ++n) Call(request, unread, most, result);
  }
  return std::fclose(result);
}
