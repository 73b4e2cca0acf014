// All of libctrlab_processor.so: it opens _ctrlab_processor.so, which lies beside it, and hands every call on.
//
// TensorFlow's libraries define protobuf, gRPC and more for everybody to see, and so does a program that is linked to its own.
// Where one of them sees the other's, it crashes. So nothing that a program is linked to names TensorFlow; it comes in here:
//
//   RTLD_DEEPBIND   its libraries look among themselves before they look in the program
//   RTLD_LOCAL      the program, and what it opens later, does not find them

#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "processor/door/calls.h"

namespace {

using ctrlab::processor::Calls;

struct Opened {
  const Calls* calls = nullptr;
  std::string problem;  // why there are none
};

Opened Open() {
  // By its path: in a program under a sanitizer dlopen's caller is the sanitizer, which has no path to it.
  Dl_info here;
  dladdr(reinterpret_cast<void*>(&Open), &here);
  const std::string path = here.dli_fname;
  const std::string behind = path.substr(0, path.find_last_of('/') + 1) + "_ctrlab_processor.so";
  // Sanitizers must see each call of malloc in the program, so they refuse the flag.
  const bool sanitized = dlsym(RTLD_DEFAULT, "__sanitizer_report_error_summary") != nullptr;
  void* const library = dlopen(behind.c_str(), RTLD_NOW | RTLD_LOCAL | (sanitized ? 0 : RTLD_DEEPBIND));
  void* const calls = library ? dlsym(library, "ctrlab_processor_calls") : nullptr;
  if (!calls) return {nullptr, std::string("The first call loads the processor, and TensorFlow; they can't be: ") + dlerror()};
  return {reinterpret_cast<decltype(&ctrlab_processor_calls)>(calls)(), ""};
}

const Opened& TheOpened() {
  // Never destroyed: threads may still call while the process ends.
  static const Opened& opened = *new Opened(Open());
  return opened;
}

template <class Member, class... Given>
int32_t Call(Member member, char* problem, size_t problem_size, Given... given) {
  const Opened& opened = TheOpened();
  if (opened.calls) return (opened.calls->*member)(given..., problem, problem_size);
  if (problem && problem_size > 0) std::snprintf(problem, problem_size, "%s", opened.problem.c_str());
  return CTRLAB_PROCESSOR_FAILED;
}

}  // namespace

CTRLAB_EXPORT uint32_t ctrlab_processor_version(void) { return CTRLAB_PROCESSOR_VERSION; }

CTRLAB_EXPORT int32_t ctrlab_processor_initialize(const char* folder, const char* configuration, ctrlab_processor* processor,
                                                  char* problem, size_t problem_size) {
  return Call(&Calls::initialize, problem, problem_size, folder, configuration, processor);
}

CTRLAB_EXPORT int32_t ctrlab_processor_process(ctrlab_processor processor, const ctrlab_processor_request* request,
                                               ctrlab_processor_response* response, char* problem, size_t problem_size) {
  return Call(&Calls::process, problem, problem_size, processor, request, response);
}

CTRLAB_EXPORT int32_t ctrlab_processor_batch_process(ctrlab_processor processor, const ctrlab_processor_request* requests,
                                                     size_t count, ctrlab_processor_response* responses, char* problem,
                                                     size_t problem_size) {
  return Call(&Calls::batch_process, problem, problem_size, processor, requests, count, responses);
}

CTRLAB_EXPORT int32_t ctrlab_processor_parse(ctrlab_processor processor, const ctrlab_processor_request* request,
                                             ctrlab_processor_response* response, char* problem, size_t problem_size) {
  return Call(&Calls::parse, problem, problem_size, processor, request, response);
}

CTRLAB_EXPORT int32_t ctrlab_processor_info(ctrlab_processor processor, ctrlab_processor_response* response, char* problem,
                                            size_t problem_size) {
  return Call(&Calls::info, problem, problem_size, processor, response);
}

CTRLAB_EXPORT void ctrlab_processor_free(ctrlab_processor_response* response) {
  if (const Calls* const calls = TheOpened().calls) calls->free(response);
}

CTRLAB_EXPORT int32_t ctrlab_processor_release(ctrlab_processor processor, char* problem, size_t problem_size) {
  return Call(&Calls::release, problem, problem_size, processor);
}
