// The snapshot kernel on pieces of all sizes, against its scalar twin.

#pragma once

#include "check/harness.h"
#include "kernels/snapshot/snapshot.h"
#include "kernels/snapshot/snapshot_scalar.h"

#pragma weak ctrlab_snapshot

namespace ctrlab::check::snapshot {

struct Case {
  std::string name;
  std::vector<int64_t> floats;  // a piece's size
};

inline std::vector<Case> Cases() {
  return {
      {"one piece", {Uniform(1, 5000)}},
      {"several pieces", {Uniform(1, 5000), 1, Uniform(1, 300), 16, 1024}},
      {"pieces of a page", {1024, 1024, 2048}},
      {"a float more and a float less than a page", {1025, 1023}},
      {"pieces of nothing", {0, 7, 0, 0, 1030, 0}},
      {"no piece", {}},
      {"many small pieces", std::vector<int64_t>(100, 3)},
  };
}

inline void Check(const std::string&) {
  for (const Case& test : Cases()) {
    for (const Pool& pool : pools) {
      std::vector<Floats> values, expected;
      std::vector<std::unique_ptr<float[]>> from, to;
      std::vector<CopyPiece> pieces, wanted;
      for (const int64_t n : test.floats) {
        values.push_back(RandomFloats(n));
        expected.push_back(Floats(n));
        from.push_back(Exactly(values.back()));
        to.push_back(Exactly(Nans(n)));
      }
      for (size_t p = 0; p < values.size(); ++p) {
        const int64_t bytes = std::ssize(values[p]) * static_cast<int64_t>(sizeof(float));
        wanted.push_back({values[p].data(), expected[p].data(), bytes});
        pieces.push_back({from[p].get(), to[p].get(), bytes});
      }
      scalar::Snapshot(wanted.data(), std::ssize(wanted));
      ctrlab_snapshot(pieces.data(), std::ssize(pieces), &pool.parallel_for);
      const std::string name = Trying(test.name, pool);
      for (size_t p = 0; p < values.size(); ++p) {
        Compare("Every byte of every piece must be copied.", name, expected[p], Floats(values[p].size(), 0.0f), to[p].get(), 1);
        Untouched(name, values[p], from[p].get());
      }
    }
  }
}

inline const Entry entries[] = {
    {"snapshot", &ctrlab_snapshot != nullptr, "kernels/snapshot/snapshot.h", Check},
};

}  // namespace ctrlab::check::snapshot
