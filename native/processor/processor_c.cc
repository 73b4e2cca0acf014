// The C interface's calls: handles, sizes of structs, codes and sentences, and no exception that leaves them.

#include <simdjson.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "processor/door/calls.h"
#include "processor/processor.h"
#include "processor/verified.h"

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

// A sentence may quote a request: it stays one line of UTF-8, also where it is cut.
int32_t Say(const Answer& answer, char* problem, size_t problem_size) {
  if (problem && problem_size > 0) {
    const std::string& sentence = answer.sentence;
    const bool utf8 = simdjson::validate_utf8(sentence);
    size_t size = std::min(sentence.size(), problem_size - 1);
    while (utf8 && size > 0 && size < sentence.size() && (static_cast<unsigned char>(sentence[size]) & 0xC0) == 0x80) --size;
    std::transform(sentence.begin(), sentence.begin() + size, problem, [utf8](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return byte < 32 || byte == 127 ? ' ' : byte > 127 && !utf8 ? '?' : c;
    });
    problem[size] = 0;
  }
  return static_cast<int32_t>(answer.code);
}

constexpr const char* kNoMemory = "There is no memory for this call: send fewer rows.";

Answer Failed(const std::exception& error) {
  return Refusal(IsOfTheMoment(error.what()) ? Code::kUnavailable : Code::kFailed, "The call failed: ", error.what());
}

template <class Body>
int32_t Call(char* problem, size_t problem_size, const Body& body) {
  try {
    return Say(body(), problem, problem_size);
  } catch (const std::bad_alloc&) {
    if (problem && problem_size > 0) std::strncpy(problem, kNoMemory, problem_size - 1);
    if (problem && problem_size > 0) problem[problem_size - 1] = 0;
    return CTRLAB_PROCESSOR_UNAVAILABLE;
  } catch (const std::exception& error) {
    return Say(Failed(error), problem, problem_size);
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
  response->parse_nanos = given.parse.count();
  response->run_nanos = given.run.count();
  response->write_nanos = given.write.count();
  response->owner = owner;
}

void Clear(ctrlab_processor_response* response) {
  response->data = nullptr;
  response->size = 0;
  response->version = response->update = 0;
  response->header = -1;
  response->parse_nanos = response->run_nanos = response->write_nanos = 0;
  response->owner = nullptr;
}

// Hands the request's bytes to `body`, and what that makes of them to the caller.
template <class Body>
Answer Fill(const ctrlab_processor_request* request, ctrlab_processor_response* response, const Body& body) {
  if (Answer bad = RequireSize(response, "ctrlab_processor_response"); !bad.ok()) return bad;
  Clear(response);
  if (Answer bad = RequireSize(request, "ctrlab_processor_request"); !bad.ok()) return bad;
  if (!request->data && request->size > 0) return Invalid("A request has its bytes; received null for ", request->size, ".");
  Response given;
  Answer answer = body({request->data, request->size}, &given);
  if (!answer.ok()) return answer;
  Give(std::move(given), response);
  return {};
}

Answer ProcessOne(Processor& processor, const Servable& servable, const ctrlab_processor_request* request,
                  ctrlab_processor_response* response) {
  return Fill(request, response, [&](std::string_view bytes, Response* given) {
    return processor.Process(servable, request->format, bytes, request->header, given);
  });
}

int32_t Initialize(const char* folder, const char* configuration, ctrlab_processor* processor, char* problem,
                   size_t problem_size) {
  return Call(problem, problem_size, [&]() -> Answer {
    if (!folder || !*folder || !processor) return Invalid("A processor has a folder and a place for its handle; received none.");
    Configuration found;
    if (Answer bad = Configuration::Parse(configuration ? configuration : "{}", &found); !bad.ok()) return bad;
    std::shared_ptr<Processor> made;
    if (Answer bad = Processor::Make(folder, std::move(found), &made); !bad.ok()) return bad;
    *processor = Handles::The().Add(std::move(made));
    return {};
  });
}

void Free(ctrlab_processor_response* response) {
  if (!response || response->struct_size != sizeof *response) return;
  delete static_cast<std::string*>(response->owner);
  Clear(response);
}

int32_t Process(ctrlab_processor processor, const ctrlab_processor_request* request, ctrlab_processor_response* response,
                char* problem, size_t problem_size) {
  return Call(problem, problem_size, [&]() -> Answer {
    const std::shared_ptr<Processor> found = Handles::The().Find(processor);
    return found ? ProcessOne(*found, *found->current(), request, response) : Released(processor);
  });
}

int32_t BatchProcess(ctrlab_processor processor, const ctrlab_processor_request* requests, size_t count,
                     ctrlab_processor_response* responses, char* problem, size_t problem_size) {
  return Call(problem, problem_size, [&]() -> Answer {
    const std::shared_ptr<Processor> found = Handles::The().Find(processor);
    if (!found) return Released(processor);
    const std::shared_ptr<const Servable> servable = found->current();
    for (size_t i = 0; i < count; ++i) {
      Answer answer;
      try {
        answer = ProcessOne(*found, *servable, requests + i, responses + i);
      } catch (const std::bad_alloc&) {
        answer = Refusal(Code::kUnavailable, kNoMemory);
      } catch (const std::exception& error) {
        answer = Failed(error);
      }
      if (answer.ok()) continue;
      for (size_t done = 0; done < i; ++done) Free(responses + done);
      answer.sentence = "Request " + std::to_string(i) + ": " + answer.sentence;
      return answer;
    }
    return {};
  });
}

int32_t Parse(ctrlab_processor processor, const ctrlab_processor_request* request, ctrlab_processor_response* response,
              char* problem, size_t problem_size) {
  return Call(problem, problem_size, [&]() -> Answer {
    const std::shared_ptr<Processor> found = Handles::The().Find(processor);
    if (!found) return Released(processor);
    return Fill(request, response, [&](std::string_view bytes, Response* given) {
      return found->Parse(*found->current(), request->format, bytes, request->header, given);
    });
  });
}

int32_t Info(ctrlab_processor processor, ctrlab_processor_response* response, char* problem, size_t problem_size) {
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

int32_t Release(ctrlab_processor processor, char* problem, size_t problem_size) {
  return Call(problem, problem_size, [&]() -> Answer {
    const std::shared_ptr<Processor> found = Handles::The().Remove(processor);
    return found ? Answer{} : Released(processor);
  });
}

}  // namespace

CTRLAB_EXPORT const Calls* ctrlab_processor_calls() {
  static constexpr Calls kCalls = {Initialize, Process, BatchProcess, Parse, Info, Free, Release};
  return &kCalls;
}
