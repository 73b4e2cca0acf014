#include "processor/processor_c.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "processor/processor.h"

namespace {

using namespace ctrlab::processor;

// The processors by handle.
class Handles {
 public:
  // Never destroyed: threads may still use it while the process ends.
  static Handles& The() {
    static Handles& handles = *new Handles;
    return handles;
  }

  ctrlab_processor Add(std::shared_ptr<Processor> processor) {
    const std::lock_guard lock(mutex_);
    processors_.emplace(++last_, std::move(processor));
    return last_;
  }
  std::shared_ptr<Processor> Find(ctrlab_processor handle) {
    const std::lock_guard lock(mutex_);
    const auto at = processors_.find(handle);
    return at == processors_.end() ? nullptr : at->second;
  }
  std::shared_ptr<Processor> Remove(ctrlab_processor handle) {
    const std::lock_guard lock(mutex_);
    const auto at = processors_.find(handle);
    if (at == processors_.end()) return nullptr;
    std::shared_ptr<Processor> found = std::move(at->second);
    processors_.erase(at);
    return found;
  }

 private:
  std::mutex mutex_;
  std::map<ctrlab_processor, std::shared_ptr<Processor>> processors_;
  ctrlab_processor last_ = 0;
};

// The compiled ops register themselves when their library is loaded. It lies beside this one, and is never linked to it, because a
// process that has loaded it for Python must not get a second one.
Answer LoadOps() {
  static std::mutex mutex;
  static bool loaded = false;
  const std::lock_guard lock(mutex);
  if (loaded) return {};
  Dl_info here;
  if (!dladdr(reinterpret_cast<void*>(&LoadOps), &here)) return Refusal(Code::kFailed, "The library does not know its own path.");
  const std::string path = here.dli_fname;
  // The ops' library names no TensorFlow. Where this one was opened for itself, as ctypes and Go do, TensorFlow's symbols must be
  // made visible to all.
  for (const char* library : {"libtensorflow_framework.so.2", "libtensorflow_cc.so.2"}) {
    if (!dlopen(library, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL)) {
      return Refusal(Code::kFailed, "TensorFlow's libraries are loaded with this one; ", library, " is not: ", dlerror());
    }
  }
  const std::string ops = path.substr(0, path.find_last_of('/') + 1) + "_ctrlab.so";
  if (!dlopen(ops.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    return Refusal(Code::kFailed, "The compiled ops lie beside this library; ", ops, " can't be loaded: ", dlerror());
  }
  loaded = true;
  return {};
}

int32_t Say(const Answer& answer, char* problem, size_t problem_size) {
  if (problem && problem_size > 0) {
    const size_t size = std::min(answer.sentence.size(), problem_size - 1);
    std::memcpy(problem, answer.sentence.data(), size);
    problem[size] = 0;
  }
  return static_cast<int32_t>(answer.code);
}

template <class Body>
int32_t Call(char* problem, size_t problem_size, const Body& body) {
  try {
    return Say(body(), problem, problem_size);
  } catch (const std::bad_alloc&) {
    if (problem && problem_size > 0)
      std::strncpy(problem, "There is no memory for this call: send fewer rows.", problem_size - 1);
    if (problem && problem_size > 0) problem[problem_size - 1] = 0;
    return CTRLAB_PROCESSOR_UNAVAILABLE;
  } catch (const std::exception& error) {
    return Say(Refusal(Code::kFailed, "The call failed: ", error.what()), problem, problem_size);
  }
}

Answer Released(ctrlab_processor handle) {
  return Invalid("A processor is used until it is released; received the handle ", handle, ", which is none now.");
}

template <class Struct>
Answer RequireSize(const Struct* given, const char* name) {
  if (!given) return Invalid("A call has a ", name, "; received null.");
  if (given->struct_size == sizeof(Struct)) return {};
  return Invalid("A ", name, " has ", sizeof(Struct), " bytes here; received struct_size ", given->struct_size,
                 ": compile against this library's header.");
}

void Give(Response given, ctrlab_processor_response* response) {
  auto* const owner = new std::string(std::move(given.bytes));
  response->data = owner->data();
  response->size = owner->size();
  response->version = given.version;
  response->update = given.update;
  response->header = given.header;
  response->owner = owner;
}

void Clear(ctrlab_processor_response* response) {
  response->data = nullptr;
  response->size = 0;
  response->version = response->update = 0;
  response->header = -1;
  response->owner = nullptr;
}

Answer ProcessOne(Processor& processor, const Servable& servable, const ctrlab_processor_request* request,
                  ctrlab_processor_response* response) {
  if (Answer bad = RequireSize(response, "ctrlab_processor_response"); !bad.ok()) return bad;
  Clear(response);
  if (Answer bad = RequireSize(request, "ctrlab_processor_request"); !bad.ok()) return bad;
  if (!request->data && request->size > 0) return Invalid("A request has its bytes; received null for ", request->size, ".");
  Response given;
  Answer answer = processor.Process(servable, request->format, {request->data, request->size}, request->header, &given);
  if (!answer.ok()) return answer;
  Give(std::move(given), response);
  return {};
}

}  // namespace

extern "C" {

CTRLAB_EXPORT uint32_t ctrlab_processor_version(void) { return CTRLAB_PROCESSOR_VERSION; }

CTRLAB_EXPORT int32_t ctrlab_processor_initialize(const char* folder, const char* configuration, ctrlab_processor* processor,
                                                  char* problem, size_t problem_size) {
  return Call(problem, problem_size, [&]() -> Answer {
    if (!folder || !*folder || !processor) return Invalid("A processor has a folder and a place for its handle; received none.");
    Configuration found;
    if (Answer bad = Configuration::Parse(configuration ? configuration : "{}", &found); !bad.ok()) return bad;
    if (Answer bad = LoadOps(); !bad.ok()) return bad;
    std::shared_ptr<Processor> made;
    if (Answer bad = Processor::Make(folder, std::move(found), &made); !bad.ok()) return bad;
    *processor = Handles::The().Add(std::move(made));
    return {};
  });
}

CTRLAB_EXPORT int32_t ctrlab_processor_process(ctrlab_processor processor, const ctrlab_processor_request* request,
                                               ctrlab_processor_response* response, char* problem, size_t problem_size) {
  return ctrlab_processor_batch_process(processor, request, 1, response, problem, problem_size);
}

CTRLAB_EXPORT int32_t ctrlab_processor_batch_process(ctrlab_processor processor, const ctrlab_processor_request* requests,
                                                     size_t count, ctrlab_processor_response* responses, char* problem,
                                                     size_t problem_size) {
  return Call(problem, problem_size, [&]() -> Answer {
    const std::shared_ptr<Processor> found = Handles::The().Find(processor);
    if (!found) return Released(processor);
    const std::shared_ptr<const Servable> servable = found->current();
    for (size_t i = 0; i < count; ++i) {
      Answer answer;
      try {
        answer = ProcessOne(*found, *servable, requests + i, responses + i);
      } catch (...) {
        for (size_t done = 0; done < i; ++done) ctrlab_processor_free(responses + done);
        throw;
      }
      if (answer.ok()) continue;
      for (size_t done = 0; done < i; ++done) ctrlab_processor_free(responses + done);
      if (count > 1) answer.sentence = "Request " + std::to_string(i) + ": " + answer.sentence;
      return answer;
    }
    return {};
  });
}

CTRLAB_EXPORT int32_t ctrlab_processor_info(ctrlab_processor processor, ctrlab_processor_response* response, char* problem,
                                            size_t problem_size) {
  return Call(problem, problem_size, [&]() -> Answer {
    if (Answer bad = RequireSize(response, "ctrlab_processor_response"); !bad.ok()) return bad;
    Clear(response);
    const std::shared_ptr<Processor> found = Handles::The().Find(processor);
    if (!found) return Released(processor);
    const std::shared_ptr<const Servable> servable = found->current();
    Give({found->Info(), -1, servable->version(), servable->moment().update}, response);
    return {};
  });
}

CTRLAB_EXPORT void ctrlab_processor_free(ctrlab_processor_response* response) {
  if (!response || response->struct_size != sizeof *response) return;
  delete static_cast<std::string*>(response->owner);
  Clear(response);
}

CTRLAB_EXPORT int32_t ctrlab_processor_release(ctrlab_processor processor, char* problem, size_t problem_size) {
  return Call(problem, problem_size, [&]() -> Answer {
    const std::shared_ptr<Processor> found = Handles::The().Remove(processor);
    return found ? Answer{} : Released(processor);
  });
}

}  // extern "C"
