// Checks the merged gradient of a lookup's keys against std::map, with and without times.

#pragma once

#include <map>

#include "check_engine_cases.h"
#include "table/merge.h"

namespace ctrlab::check::engine {

// d_out counts 1, 2, 3, .. in the column `each`, which has one row per key, so that all sums are exact.
inline void Merge(const LookupInput& input, const LookupColumn& each) {
  const LookupInput one{&each, 1, input.tables, 1, input.widths, input.rows};
  const int64_t ids = each.splits[input.rows], dim = input.tables[each.table].dim;
  const bool counted = Uniform(0, 2);
  Floats d_out(ids * dim);
  std::vector<int64_t> times(ids);
  std::map<int64_t, std::pair<int64_t, float>> wanted;
  for (int64_t i = 0; i < ids; ++i) {
    std::fill_n(d_out.data() + i * dim, dim, static_cast<float>(i + 1));
    times[i] = counted ? Uniform(1, 5) : 1;
    auto& [count, sum] = wanted[each.ids[i]];
    count += times[i], sum += static_cast<float>(i + 1);
  }
  const Pool& pool = pools[Uniform(0, 3)];
  const int64_t* const of_column = times.data();
  const KeyMerge merge(one, pool.parallel_for, counted ? &of_column : nullptr);
  if (merge.count(0) != std::ssize(wanted)) Wrong("another number of merged keys", merge.count(0));
  const std::unique_ptr<int64_t[]> keys(new int64_t[wanted.size()]), counts(new int64_t[wanted.size()]);
  const auto sums = Exactly(Nans(std::ssize(wanted) * dim));
  const float* const from[] = {nullptr, d_out.data()};
  const MergedKeys merged{keys.get(), counts.get(), sums.get()};
  merge.Write(from, &merged, pool.parallel_for);
  int64_t k = 0;
  for (const auto& [key, what] : wanted) {
    if (keys[k] != key || counts[k] != what.first) Wrong("another merged key or count", key);
    const float* sum = sums.get() + k++ * dim;
    if (std::count(sum, sum + dim, what.second) != dim) Wrong("a merged row is another", key);
  }
}

}  // namespace ctrlab::check::engine
