#include <atomic>

#include "check_engine_c.h"

namespace ctrlab::check::engine {
// In failing_new.cc.
extern std::atomic<int64_t> fail_in;
extern thread_local bool may_fail;
}  // namespace ctrlab::check::engine

void check_fail_allocation(int64_t in) {
  using namespace ctrlab::check::engine;
  if (in == 0 && !may_fail) return;  // another thread's counter may still run
  fail_in = in, may_fail = in > 0;
}
