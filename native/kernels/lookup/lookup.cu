// The lookup of all columns on a GPU, and the merging of equal ids. One thread per output element: (row, column, d).
//
// Merging needs no sort: a table's ids set bits in a bitmap, and the number of lower bits that are set is the index of an id's
// row, as in lookup.cc. So the merged ids ascend. Their sums are added in any order, so the last bits may differ between runs.

#include "kernels/cuda.h"
#include "kernels/lookup/lookup.h"

namespace ctrlab {
namespace {

constexpr int kThreads = 256;
constexpr int kWordBits = 32;
constexpr int kRun = 8;  // bitmap words that one thread counts at a time

// The scratch memory of a merge, per table; uninitialised on entry, in device memory.
struct MergeRoom {
  unsigned* taken;  // [ceil(V / 32)], one bit per id
  int* before;      // [ceil(V / 32)], number of ids in earlier words
};

__device__ inline int64_t Words(const LookupTable& table) { return (table.rows + kWordBits - 1) / kWordBits; }

// The index of a marked id among the merged ones.
__device__ inline int64_t PlaceOf(const MergeRoom& room, int64_t id) {
  const unsigned below = room.taken[id / kWordBits] & ((1u << id % kWordBits) - 1);
  return room.before[id / kWordBits] + __popc(below);
}

__device__ inline int64_t First(const LookupColumn& column, int64_t b) { return column.splits ? column.splits[b] : b; }
__device__ inline int64_t Last(const LookupColumn& column, int64_t b) { return column.splits ? column.splits[b + 1] : b + 1; }
__device__ inline int64_t IdCount(const LookupInput& input, const LookupColumn& column) {
  return column.splits ? column.splits[input.rows] : input.rows;
}

__device__ inline int64_t KnownIds(const LookupColumn& column, int64_t b) {
  int64_t known = 0;
  for (int64_t i = First(column, b); i < Last(column, b); ++i) known += column.ids[i] >= 0;
  return known;
}

// Calls visit(b or n, d) for the numbers of column `c` in its output, shared out among the blocks of one grid row.
template <class Visit>
__device__ void ForEachNumber(const LookupInput& input, const LookupColumn& column, const Visit& visit) {
  const int64_t D = input.tables[column.table].dim;
  const int64_t places = column.combiner == kRows ? IdCount(input, column) : input.rows;
  for (int64_t k = blockIdx.x * int64_t{kThreads} + threadIdx.x; k < places * D; k += int64_t{gridDim.x} * kThreads) {
    visit(k / D, k % D);
  }
}

__global__ void Forward(LookupInput input, const float* const* tables, float* const* out) {
  const LookupColumn column = input.columns[blockIdx.y];
  const int64_t D = input.tables[column.table].dim;
  const float* table = tables[column.table];
  ForEachNumber(input, column, [&](int64_t place, int64_t d) {
    float* target = out[column.output] + place * input.widths[column.output] + column.offset + d;
    if (column.combiner == kRows) {
      const int64_t id = column.ids[place];
      *target = id >= 0 ? table[id * D + d] : 0.0f;
      return;
    }
    float sum = 0;
    int64_t known = 0;
    for (int64_t i = First(column, place); i < Last(column, place); ++i) {
      const int64_t id = column.ids[i];
      if (id >= 0) sum += table[id * D + d], ++known;
    }
    *target = column.combiner == kMean && known > 1 ? sum / known : sum;
  });
}

__global__ void Clear(LookupInput input, const MergeRoom* rooms) {
  const int64_t words = Words(input.tables[blockIdx.y]);
  for (int64_t w = blockIdx.x * int64_t{kThreads} + threadIdx.x; w < words; w += int64_t{gridDim.x} * kThreads) {
    rooms[blockIdx.y].taken[w] = 0;
  }
}

__global__ void Mark(LookupInput input, const MergeRoom* rooms) {
  const LookupColumn column = input.columns[blockIdx.y];
  const int64_t count = IdCount(input, column);
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += int64_t{gridDim.x} * kThreads) {
    const int64_t id = column.ids[i];
    if (id >= 0) atomicOr(&rooms[column.table].taken[id / kWordBits], 1u << id % kWordBits);
  }
}

// One block per table. In each round a thread counts the bits of a run of words, and adds the counts of earlier runs.
__global__ void Number(LookupInput input, const MergeRoom* rooms, MergedRows* merged) {
  const MergeRoom room = rooms[blockIdx.y];
  const int64_t words = Words(input.tables[blockIdx.y]);
  const int thread = static_cast<int>(threadIdx.x);
  CTRLAB_SHARED(counts);  // [threads]; a float holds them exactly, a run has kRun * 32 ids at most
  int total = 0;
  for (int64_t round = 0; round < words; round += kThreads * kRun) {
    const int64_t first = round + thread * kRun, last = first + kRun < words ? first + kRun : words;
    int own = 0;
    for (int64_t w = first; w < last; ++w) own += __popc(room.taken[w]);
    __syncthreads();
    counts[thread] = static_cast<float>(own);
    __syncthreads();
    int before = total;
    for (int other = 0; other < kThreads; ++other) {
      const int count = static_cast<int>(counts[other]);
      total += count;
      if (other < thread) before += count;
    }
    for (int64_t w = first; w < last; ++w) {
      room.before[w] = before;
      before += __popc(room.taken[w]);
    }
  }
  if (thread == 0) merged[blockIdx.y].count = total;
}

// Writes the merged ids, and zeros into their sums.
__global__ void List(LookupInput input, const MergeRoom* rooms, const MergedRows* merged) {
  const MergeRoom room = rooms[blockIdx.y];
  const MergedRows target = merged[blockIdx.y];
  const int64_t D = input.tables[blockIdx.y].dim, words = Words(input.tables[blockIdx.y]);
  for (int64_t w = blockIdx.x * int64_t{kThreads} + threadIdx.x; w < words; w += int64_t{gridDim.x} * kThreads) {
    int64_t place = room.before[w];
    for (int bit = 0; bit < kWordBits; ++bit) {
      if (!(room.taken[w] >> bit & 1)) continue;
      target.ids[place] = w * kWordBits + bit;
      for (int64_t d = 0; d < D; ++d) target.rows[place * D + d] = 0;
      ++place;
    }
  }
}

__global__ void Add(LookupInput input, const float* const* d_out, const MergeRoom* rooms, const MergedRows* merged) {
  const LookupColumn column = input.columns[blockIdx.y];
  const MergeRoom room = rooms[column.table];
  float* const rows = merged[column.table].rows;
  const int64_t D = input.tables[column.table].dim;
  ForEachNumber(input, column, [&](int64_t place, int64_t d) {
    float gradient = d_out[column.output][place * input.widths[column.output] + column.offset + d];
    if (column.combiner == kRows) {
      const int64_t id = column.ids[place];
      if (id >= 0) atomicAdd(&rows[PlaceOf(room, id) * D + d], gradient);
      return;
    }
    if (column.combiner == kMean) {
      const int64_t known = KnownIds(column, place);
      if (known > 1) gradient /= known;
    }
    for (int64_t i = First(column, place); i < Last(column, place); ++i) {
      const int64_t id = column.ids[i];
      if (id >= 0) atomicAdd(&rows[PlaceOf(room, id) * D + d], gradient);
    }
  });
}

// Enough blocks for a column with one id per row; longer columns loop.
dim3 Grid(const LookupInput& input, int64_t of) {
  const int64_t blocks = BlocksFor(input.rows * 32, kThreads);
  return dim3(blocks < 1024 ? blocks : 1024, of);
}

}  // namespace
}  // namespace ctrlab

using namespace ctrlab;

CTRLAB_EXPORT int ctrlab_cuda_lookup(const LookupInput* input, const float* const* tables, float* const* out, void* stream) {
  return Launch(Forward, Grid(*input, input->column_count), kThreads, 0, stream, *input, tables, out);
}

// `merged` [T] and `rooms` [T] are in device memory; only the device knows the number of ids.
CTRLAB_EXPORT int ctrlab_cuda_lookup_merge(const LookupInput* input, const float* const* d_out, MergedRows* merged,
                                           const MergeRoom* rooms, void* stream) {
  const dim3 columns = Grid(*input, input->column_count), tables = Grid(*input, input->table_count);
  if (int failed = Launch(Clear, tables, kThreads, 0, stream, *input, rooms)) return failed;
  if (int failed = Launch(Mark, columns, kThreads, 0, stream, *input, rooms)) return failed;
  const size_t sums = kThreads * sizeof(float);
  if (int failed = Launch(Number, dim3(1, input->table_count), kThreads, sums, stream, *input, rooms, merged)) return failed;
  if (int failed = Launch(List, tables, kThreads, 0, stream, *input, rooms, merged)) return failed;
  return Launch(Add, columns, kThreads, 0, stream, *input, d_out, rooms, merged);
}
