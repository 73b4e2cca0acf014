#include "check_engine_c.h"

namespace ctrlab::check::engine {
extern thread_local int64_t fail_in;  // failing_new.cc
}

void check_fail_allocation(int64_t in) { ctrlab::check::engine::fail_in = in; }
