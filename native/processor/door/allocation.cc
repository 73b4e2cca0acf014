// In _ctrlab_processor.so: malloc and its kin are the program's.
//
// With RTLD_DEEPBIND (door.cc) TensorFlow would find glibc's malloc before one that the program is linked to or preloads, such as
// jemalloc's, which glibc itself calls, in strdup say: memory of one heap would be given back to the other. The look-up begins
// with this library, and so ends here.

#include <dlfcn.h>
#include <stdlib.h>

#include "kernels/abi.h"

// Of the program's scope: by RTLD_DEFAULT this library would find itself.
#define CTRLAB_OF_THE_PROGRAM(name) reinterpret_cast<decltype(&::name)>(dlsym(dlopen(nullptr, RTLD_LAZY), #name))

CTRLAB_EXPORT void* malloc(size_t size) noexcept {
  static const auto programs = CTRLAB_OF_THE_PROGRAM(malloc);
  return programs(size);
}

CTRLAB_EXPORT void free(void* data) noexcept {
  static const auto programs = CTRLAB_OF_THE_PROGRAM(free);
  programs(data);
}

CTRLAB_EXPORT void* calloc(size_t count, size_t size) noexcept {
  static const auto programs = CTRLAB_OF_THE_PROGRAM(calloc);
  return programs(count, size);
}

CTRLAB_EXPORT void* realloc(void* data, size_t size) noexcept {
  static const auto programs = CTRLAB_OF_THE_PROGRAM(realloc);
  return programs(data, size);
}

CTRLAB_EXPORT void* aligned_alloc(size_t alignment, size_t size) noexcept {
  static const auto programs = CTRLAB_OF_THE_PROGRAM(aligned_alloc);
  return programs(alignment, size);
}

CTRLAB_EXPORT int posix_memalign(void** data, size_t alignment, size_t size) noexcept {
  static const auto programs = CTRLAB_OF_THE_PROGRAM(posix_memalign);
  return programs(data, alignment, size);
}
