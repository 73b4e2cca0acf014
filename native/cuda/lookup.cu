// The lookup of all columns on a GPU, and the merging of equal ids. A thread owns one number of one place: (row, column, d).
//
// Merging needs no sort: each table brings a map from id to place, -1 everywhere, which the first thread that meets an id claims
// by compare-and-swap; a last pass over the merged ids puts the -1 back. The order of the merged ids, and the last bits of
// their sums, differ from run to run.

#include "../kernels/lookup.h"
#include "cuda.h"

namespace ctrlab {
namespace {

constexpr int kThreads = 256;
constexpr int kFree = -1, kTaken = -2;

// What a merge writes, per table; in device memory.
struct MergingTable {
  int* places;   // [V], -1 everywhere before and after
  int* count;    // how many ids are merged
  int64_t* ids;  // [the table's ids in all columns, at most V]
  float* rows;   // the same number of rows of D
};

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

// Every id gets its place among the merged ones, and that place a row of zeros.
__global__ void Claim(LookupInput input, const MergingTable* merging) {
  const LookupColumn column = input.columns[blockIdx.y];
  const MergingTable table = merging[column.table];
  const int64_t D = input.tables[column.table].dim, count = IdCount(input, column);
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += int64_t{gridDim.x} * kThreads) {
    const int64_t id = column.ids[i];
    if (id < 0 || atomicCAS(&table.places[id], kFree, kTaken) != kFree) continue;
    const int place = atomicAdd(table.count, 1);
    table.ids[place] = id;
    for (int64_t d = 0; d < D; ++d) table.rows[place * D + d] = 0;
    atomicCAS(&table.places[id], kTaken, place);
  }
}

__global__ void Add(LookupInput input, const float* const* d_out, const MergingTable* merging) {
  const LookupColumn column = input.columns[blockIdx.y];
  const MergingTable table = merging[column.table];
  const int64_t D = input.tables[column.table].dim;
  ForEachNumber(input, column, [&](int64_t place, int64_t d) {
    float gradient = d_out[column.output][place * input.widths[column.output] + column.offset + d];
    if (column.combiner == kRows) {
      const int64_t id = column.ids[place];
      if (id >= 0) atomicAdd(&table.rows[table.places[id] * D + d], gradient);
      return;
    }
    if (column.combiner == kMean) {
      const int64_t known = KnownIds(column, place);
      if (known > 1) gradient /= known;
    }
    for (int64_t i = First(column, place); i < Last(column, place); ++i) {
      const int64_t id = column.ids[i];
      if (id >= 0) atomicAdd(&table.rows[table.places[id] * D + d], gradient);
    }
  });
}

__global__ void Release(const MergingTable* merging) {
  const MergingTable table = merging[blockIdx.y];
  for (int64_t u = blockIdx.x * int64_t{kThreads} + threadIdx.x; u < *table.count; u += int64_t{gridDim.x} * kThreads) {
    table.places[table.ids[u]] = kFree;
  }
}

// Enough blocks for the numbers of a column with one id a row; longer ones loop.
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

// `merging` is an array of T, and `counts` the T numbers that its counts point to.
CTRLAB_EXPORT int ctrlab_cuda_lookup_merge(const LookupInput* input, const float* const* d_out, const MergingTable* merging,
                                           int* counts, void* stream) {
  const dim3 columns = Grid(*input, input->column_count);
  if (int failed = Fill(counts, 0, input->table_count * sizeof(int), stream)) return failed;
  if (int failed = Launch(Claim, columns, kThreads, 0, stream, *input, merging)) return failed;
  if (int failed = Launch(Add, columns, kThreads, 0, stream, *input, d_out, merging)) return failed;
  return Launch(Release, Grid(*input, input->table_count), kThreads, 0, stream, merging);
}
