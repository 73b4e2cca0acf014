// A processor without a model, for the checks of lessons: it answers what it is told to, and ends the program where a caller breaks
// a rule of processor_c.h. The real one forgives some of that, and can't see the rest.
//
//   FOLDER/plan    for each call of process, in order: a line "CODE BODY TEXT", the sizes of the body that is expected and of the
//                  text that is answered; then both of them
//
// What it found is the last line on stderr, {"rule": ..., "expected": ..., "received": ...}, and the exit code is 70.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "processor/processor_c.h"

namespace {

constexpr ctrlab_processor kHandle = 7'000'000'019;
constexpr int64_t kGivenBack = -7'000'000'021;  // the version in a response that was given back

constexpr char kOnce[] = "Each answer is given back, once, by ctrlab_processor_free.";

struct Step {
  int code;
  std::string body, text;
};

std::vector<Step> plan;
size_t calls = 0, held = 0;
bool loaded = false, open = false;

[[noreturn]] void Refuse(const char* rule, const std::string& expected, const std::string& received) {
  std::fflush(stdout);
  std::fprintf(stderr, "{\"rule\": \"%s\", \"expected\": \"%s\", \"received\": \"%s\"}\n", rule, expected.c_str(),
               received.c_str());
  _exit(70);
}

void Require(bool holds, const char* rule, const std::string& expected, const std::string& received) {
  if (!holds) Refuse(rule, expected, received);
}

int32_t Say(int32_t code, const std::string& text, char* problem, size_t size) {
  if (problem && size > 0) {
    std::memset(problem, 0, size);  // all of it is the caller's, as it says
    std::strncpy(problem, text.c_str(), size - 1);
  }
  return code;
}

void AtExit() {
  Require(held == 0, kOnce, "0 answers that are still held", std::to_string(held));
  Require(!open, "A handle that was given is released.", "one call of ctrlab_processor_release", "none");
}

void RequireFits(const ctrlab_processor_request& request, const Step& step) {
  Require(request.struct_size == sizeof request, "A struct says how large it is, so that a library of another version notices.",
          "request.struct_size " + std::to_string(sizeof request), std::to_string(request.struct_size));
  Require(request.format == CTRLAB_PROCESSOR_JSON, "The request says what its bytes are.", "format CTRLAB_PROCESSOR_JSON",
          std::to_string(request.format));
  Require(request.header == -1, "No tensors stand behind this JSON, and the header says so.", "header -1",
          std::to_string(request.header));
  Require(request.data, "A request has its bytes.", "the body's address", "null");
  const bool again =
      calls > 0 && step.body != plan[calls - 1].body && std::string(request.data, request.size) == plan[calls - 1].body;
  const int before = calls > 0 ? plan[calls - 1].code : CTRLAB_PROCESSOR_OK;
  Require(!again, "Only UNAVAILABLE is asked again, and only once.", "the next request",
          "the last one, again, after code " + std::to_string(before));
  const bool skipped = calls > 0 && step.body == plan[calls - 1].body && std::string(request.data, request.size) != step.body;
  Require(!skipped, "What is UNAVAILABLE now is asked once more.", "the same request", "another one");
  Require(request.size == step.body.size(), "The request is as long as its body.", std::to_string(step.body.size()) + " bytes",
          std::to_string(request.size));
  Require(std::memcmp(request.data, step.body.data(), step.body.size()) == 0, "The request is the body, byte for byte.",
          "the body of this line", "another");
}

}  // namespace

uint32_t ctrlab_processor_version() { return CTRLAB_PROCESSOR_VERSION; }

int32_t ctrlab_processor_initialize(const char* folder, const char*, ctrlab_processor* processor, char* problem, size_t size) {
  Require(!loaded, "A program loads the model once: it takes long, and needs memory.", "one call of ctrlab_processor_initialize",
          "another");
  std::ifstream file(std::string(folder) + "/plan", std::ios::binary);
  if (!file) return Say(CTRLAB_PROCESSOR_NOT_FOUND, "This folder has no version.", problem, size);
  Step step;
  for (size_t body, text; file >> step.code >> body >> text && file.get() == '\n'; plan.push_back(step)) {
    step.body.resize(body);
    step.text.resize(text);
    file.read(step.body.data(), static_cast<std::streamsize>(body));
    file.read(step.text.data(), static_cast<std::streamsize>(text));
  }
  loaded = open = true;
  std::atexit(AtExit);
  *processor = kHandle;
  return Say(CTRLAB_PROCESSOR_OK, "", problem, size);
}

int32_t ctrlab_processor_process(ctrlab_processor processor, const ctrlab_processor_request* request,
                                 ctrlab_processor_response* response, char* problem, size_t size) {
  Require(open && processor == kHandle, "A request is asked of the handle that initialize gave, before its release.",
          "that handle", std::to_string(processor));
  Require(request && response, "A call has a request and a response.", "two addresses", "null");
  Require(response->struct_size == sizeof *response,
          "A struct says how large it is, so that a library of another version notices.",
          "response.struct_size " + std::to_string(sizeof *response), std::to_string(response->struct_size));
  Require(!response->owner && !response->data, "A response begins as zeros, apart from its size.", "owner and data null",
          held ? "what an earlier answer holds" : "other bytes");
  Require(calls < plan.size(), "Only UNAVAILABLE is asked again, and only once.",
          std::to_string(plan.size()) + " calls of process", "one more");
  const Step& step = plan[calls];
  RequireFits(*request, step);
  ++calls;
  response->version = 0;
  if (step.code != CTRLAB_PROCESSOR_OK) return Say(step.code, step.text, problem, size);
  auto* const data = static_cast<char*>(std::malloc(16 + step.text.size()));  // no zero behind it; it begins inside of a block
  std::memcpy(data + 16, step.text.data(), step.text.size());
  response->data = data + 16;
  response->size = step.text.size();
  response->version = 1;
  response->update = 0;
  response->header = -1;
  response->owner = data;
  ++held;
  return Say(CTRLAB_PROCESSOR_OK, "", problem, size);
}

int32_t ctrlab_processor_batch_process(ctrlab_processor, const ctrlab_processor_request*, size_t, ctrlab_processor_response*,
                                       char*, size_t) {
  Refuse("Each request is asked on its own: one bad one would end a batch.", "ctrlab_processor_process",
         "ctrlab_processor_batch_process");
}

void ctrlab_processor_free(ctrlab_processor_response* response) {
  if (!response) return;
  Require(response->version != kGivenBack, kOnce, "one call of ctrlab_processor_free per call of process", "another");
  held -= response->owner != nullptr;
  std::free(response->owner);
  std::memset(response, 0, sizeof *response);
  response->struct_size = sizeof *response;
  response->header = -1;
  response->version = kGivenBack;
}

int32_t ctrlab_processor_release(ctrlab_processor processor, char* problem, size_t size) {
  Require(open && processor == kHandle, "A handle is released once.", "the handle that initialize gave",
          std::to_string(processor));
  open = false;
  return Say(CTRLAB_PROCESSOR_OK, "", problem, size);
}
