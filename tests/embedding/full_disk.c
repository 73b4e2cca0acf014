// A disk that fills up, for the process that this is preloaded into: what writes below a folder is refused from some call or
// some byte on, until there is room again. Everything else, and all that reads, goes through.
//
// A write that half fits is taken half, as a disk does. Paths are those of the open files (/proc/self/fd), so it doesn't matter
// who opened them; names are absolute. Writes that go round the C library (io_uring, a mapped file) are not seen: nothing of
// ours makes any.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum Kind { kRoom = 1, kSync = 2, kNames = 4 };  // what takes bytes or makes a file; what syncs; what renames and removes

static atomic_llong calls_left, bytes_left, refused;
static atomic_int problem, kinds;  // problem: what is said from then on; 0: there is room
static char folders[2][PATH_MAX];  // the second is what is read while the first is written
static _Atomic(const char*) folder = folders[0];

void full_disk_fill(const char* below, long long calls, long long bytes, int says, int what) {
  problem = 0;
  char* next = folder == folders[0] ? folders[1] : folders[0];
  strncpy(next, below, PATH_MAX - 1);
  folder = next;
  calls_left = calls;
  bytes_left = bytes;
  kinds = what;
  problem = says;
}

void full_disk_free(void) { problem = 0; }

long long full_disk_refused(void) { return refused; }

static int Below(const char* path) {
  const char* top = folder;
  const size_t n = strlen(top);
  return n && strncmp(path, top, n) == 0 && (path[n] == '/' || path[n] == 0);
}

static int FileBelow(int file) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return Below(path);
}

static int NameBelow(int in, const char* name) { return name[0] == '/' || in == AT_FDCWD ? Below(name) : FileBelow(in); }

// Whether a call is refused; errno then says why.
static int Refuses(int kind) {
  const int says = problem;
  if (!says || !(kinds & kind)) return 0;
  if (atomic_fetch_sub(&calls_left, 1) > 0 && bytes_left > 0) return 0;
  calls_left = 0;
  ++refused;
  errno = says;
  return 1;
}

// How many of these bytes the disk still takes.
static size_t Taken(size_t bytes) {
  if (!problem || !(kinds & kRoom)) return bytes;
  const long long left = atomic_fetch_sub(&bytes_left, (long long)bytes);
  return left >= (long long)bytes ? bytes : (size_t)(left > 0 ? left : 0);
}

#define REAL(name)               \
  static __typeof__(&name) real; \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int file, const void* from, size_t bytes) {
  REAL(write);
  if (!problem || !bytes || !FileBelow(file)) return real(file, from, bytes);
  return Refuses(kRoom) ? -1 : real(file, from, Taken(bytes));
}

#define PWRITE(name, offset_type)                                                       \
  ssize_t name(int file, const void* from, size_t bytes, offset_type offset) {          \
    REAL(name);                                                                         \
    if (!problem || !bytes || !FileBelow(file)) return real(file, from, bytes, offset); \
    return Refuses(kRoom) ? -1 : real(file, from, Taken(bytes), offset);                \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t writev(int file, const struct iovec* from, int count) {
  REAL(writev);
  return problem && FileBelow(file) && Refuses(kRoom) ? -1 : real(file, from, count);
}

#define ON_FILE(name, kind)                                               \
  int name(int file) {                                                    \
    REAL(name);                                                           \
    return problem && FileBelow(file) && Refuses(kind) ? -1 : real(file); \
  }
ON_FILE(fsync, kSync)
ON_FILE(fdatasync, kSync)

#define TRUNCATE(name, offset_type)                                              \
  int name(int file, offset_type size) {                                         \
    REAL(name);                                                                  \
    return problem && FileBelow(file) && Refuses(kRoom) ? -1 : real(file, size); \
  }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

// A file that is there can be opened on a full disk.
static int Makes(int in, const char* path, int flags) {
  return (flags & O_CREAT) && NameBelow(in, path) && faccessat(in, path, F_OK, 0) != 0;
}

#define OPEN(name)                                                                                   \
  int name(const char* path, int flags, ...) {                                                       \
    REAL(name);                                                                                      \
    va_list rest;                                                                                    \
    va_start(rest, flags);                                                                           \
    const mode_t mode = va_arg(rest, mode_t);                                                        \
    va_end(rest);                                                                                    \
    return problem && Makes(AT_FDCWD, path, flags) && Refuses(kRoom) ? -1 : real(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                               \
  int name(int in, const char* path, int flags, ...) {                                             \
    REAL(name);                                                                                    \
    va_list rest;                                                                                  \
    va_start(rest, flags);                                                                         \
    const mode_t mode = va_arg(rest, mode_t);                                                      \
    va_end(rest);                                                                                  \
    return problem && Makes(in, path, flags) && Refuses(kRoom) ? -1 : real(in, path, flags, mode); \
  }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name)                                                                             \
  FILE* name(const char* path, const char* mode) {                                              \
    REAL(name);                                                                                 \
    const int flags = strpbrk(mode, "wa") ? O_CREAT : 0;                                        \
    return problem && Makes(AT_FDCWD, path, flags) && Refuses(kRoom) ? NULL : real(path, mode); \
  }
FOPEN(fopen)
FOPEN(fopen64)

int mkdir(const char* path, mode_t mode) {
  REAL(mkdir);
  return problem && Makes(AT_FDCWD, path, O_CREAT) && Refuses(kRoom) ? -1 : real(path, mode);
}

int unlink(const char* path) {
  REAL(unlink);
  return problem && Below(path) && Refuses(kNames) ? -1 : real(path);
}

int unlinkat(int in, const char* path, int flags) {
  REAL(unlinkat);
  return problem && NameBelow(in, path) && Refuses(kNames) ? -1 : real(in, path, flags);
}

int rename(const char* from, const char* to) {
  REAL(rename);
  return problem && Below(to) && Refuses(kNames) ? -1 : real(from, to);
}

int renameat(int from_in, const char* from, int to_in, const char* to) {
  REAL(renameat);
  return problem && NameBelow(to_in, to) && Refuses(kNames) ? -1 : real(from_in, from, to_in, to);
}
