// Measures this machine's disk: random reads of 4096 bytes without the page cache, one at a time and with 128 in flight.

#pragma once

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>

namespace ctrlab {

struct DiskSpeed {
  double reads_per_second = 0, reads_per_second_alone = 0;  // 0 if the system has no queue for reads
};

// Measures in the given file, which should be far larger than the disk's own cache, for `seconds` each.
inline DiskSpeed MeasureDisk(const std::string& path, double seconds) {
  constexpr int kDepth = 128;
  constexpr int64_t kBlock = 4096;
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  struct stat about{};
  fstat(fd, &about);
  const int64_t blocks = about.st_size / kBlock;
  const std::unique_ptr<char, decltype(&std::free)> buffer(static_cast<char*>(std::aligned_alloc(kBlock, kDepth * kBlock)),
                                                           &std::free);
  std::mt19937_64 random(3);
  auto rate = [&](int depth) {
    aio_context_t context = 0;
    if (fd < 0 || blocks == 0 || syscall(SYS_io_setup, kDepth, &context) != 0) return 0.0;
    iocb requests[kDepth], *ready[kDepth];
    io_event events[kDepth];
    auto again = [&](uint64_t slot) {
      requests[slot] = {};
      requests[slot].aio_data = slot;
      requests[slot].aio_lio_opcode = IOCB_CMD_PREAD;
      requests[slot].aio_fildes = static_cast<uint32_t>(fd);
      requests[slot].aio_buf = reinterpret_cast<uint64_t>(buffer.get() + slot * kBlock);
      requests[slot].aio_nbytes = kBlock;
      requests[slot].aio_offset = static_cast<int64_t>(random() % static_cast<uint64_t>(blocks)) * kBlock;
      return &requests[slot];
    };
    const auto start = std::chrono::steady_clock::now();
    auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
    int64_t done = 0, in_flight = 0, waiting = depth;
    for (int i = 0; i < depth; ++i) ready[i] = again(i);
    while (passed() < seconds || in_flight > 0) {
      if (waiting > 0 && passed() < seconds) {
        const long taken = syscall(SYS_io_submit, context, waiting, ready);
        if (taken <= 0) break;
        in_flight += taken;
      }
      if (in_flight == 0) break;
      const long n = syscall(SYS_io_getevents, context, 1L, static_cast<long>(kDepth), events, nullptr);
      if (n <= 0) break;
      for (long i = 0; i < n; ++i) ready[i] = again(events[i].data);
      waiting = n, done += n, in_flight -= n;
    }
    const double measured = static_cast<double>(done) / passed();
    syscall(SYS_io_destroy, context);
    return measured;
  };
  const DiskSpeed speed{rate(kDepth), rate(1)};
  if (fd >= 0) close(fd);
  return speed;
}

}  // namespace ctrlab
