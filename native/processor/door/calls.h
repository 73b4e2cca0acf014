// The calls of processor_c.h that libctrlab_processor.so makes into _ctrlab_processor.so.

#pragma once

#include "kernels/abi.h"
#include "processor/processor_c.h"

namespace ctrlab::processor {

struct Calls {
  decltype(&ctrlab_processor_initialize) initialize;
  decltype(&ctrlab_processor_process) process;
  decltype(&ctrlab_processor_batch_process) batch_process;
  decltype(&ctrlab_processor_parse) parse;
  decltype(&ctrlab_processor_info) info;
  decltype(&ctrlab_processor_free) free;
  decltype(&ctrlab_processor_release) release;
};

}  // namespace ctrlab::processor

CTRLAB_EXPORT const ctrlab::processor::Calls* ctrlab_processor_calls();
