#include "kernels/snapshot/snapshot.h"

#include <algorithm>
#include <cstring>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace ctrlab {
namespace {

constexpr int64_t kPage = 4096;  // the unit of work for threads

// A plain store first reads the cache line that it overwrites; streaming stores avoid this and save a third of the traffic.
void CopyPast(const char* from, char* to, int64_t bytes) {
#ifdef __SSE2__
  if (reinterpret_cast<uintptr_t>(to) % 16 == 0) {
    const int64_t whole = bytes - bytes % 64;
    for (int64_t i = 0; i < whole; i += 64) {
      for (int64_t j = i; j < i + 64; j += 16) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + j), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + j)));
      }
    }
    _mm_sfence();
    std::memcpy(to + whole, from + whole, bytes - whole);
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

}  // namespace
}  // namespace ctrlab

void ctrlab_snapshot(const ctrlab::CopyPiece* pieces, int64_t count, const ctrlab::ParallelFor* parallel_for) {
  using namespace ctrlab;
  std::vector<int64_t> first(count + 1, 0);  // the number of each piece's first page, counted over all pieces
  for (int64_t p = 0; p < count; ++p) first[p + 1] = first[p] + (pieces[p].bytes + kPage - 1) / kPage;

  (*parallel_for)(first[count], kPage / 4, [&](int64_t begin, int64_t end) {
    int64_t p = std::upper_bound(first.begin(), first.end(), begin) - first.begin() - 1;
    for (; p < count && first[p] < end; ++p) {
      const int64_t from = (std::max(begin, first[p]) - first[p]) * kPage;
      const int64_t to = std::min((std::min(end, first[p + 1]) - first[p]) * kPage, pieces[p].bytes);
      if (from < to) {
        CopyPast(static_cast<const char*>(pieces[p].from) + from, static_cast<char*>(pieces[p].to) + from, to - from);
      }
    }
  });
}
