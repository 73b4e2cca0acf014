// Checks the processor with TensorFlow below it, under sanitizers: eight threads ask while versions and updates come, and while
// processors are released and made anew. Every second processor shares the members of a session group with the others that do.
//
//   check_processor <seconds> <folder>...    exit code 0, and for each folder a line of the versions and updates that answered,
//                                            such as "1.0 1.1 4.0"; or 1 and a sentence on stderr
//
// A folder is a model's, and has beside its versions:
//   requests/<format>_<header>    requests that are answered
//   odd/<format>_<header>         requests that are refused
//   moves                         lines of two paths in the folder: what becomes what, one after the other

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "processor/door/calls.h"

namespace {

using namespace std::chrono_literals;
using ctrlab::processor::Calls;

constexpr int kAskers = 8;

const Calls& The() { return *ctrlab_processor_calls(); }

void Require(bool holds, const std::string& rule, const std::string& received) {
  if (holds) return;
  std::fprintf(stderr, "%s; received %s\n", rule.c_str(), received.c_str());
  std::_Exit(1);
}

struct Request {
  std::string path, body;
  int32_t format;
  int64_t header;
  bool odd;
};

std::vector<Request> RequestsIn(const std::string& folder) {
  std::vector<Request> requests;
  for (const bool odd : {false, true}) {
    for (const auto& file : std::filesystem::directory_iterator(folder + (odd ? "/odd" : "/requests"))) {
      const std::string path = file.path(), name = file.path().filename();
      std::ifstream stream(path, std::ios::binary);
      requests.push_back({path, std::string(std::istreambuf_iterator<char>(stream), {}), std::stoi(name),
                          std::stoll(name.substr(name.find('_') + 1)), odd});
    }
  }
  return requests;
}

constexpr const char* kConfigurations[] = {
    R"({"poll_seconds": 0.01})",
    R"({"poll_seconds": 0.01, "intra_op_threads": 2, "group": {"name": "of all", "members": 2, "policy": "least_in_flight"}})",
};

ctrlab_processor Make(const std::string& folder) {
  static std::atomic<int> number = 0;
  char problem[1000];
  ctrlab_processor made;
  const int32_t code = The().initialize(folder.c_str(), kConfigurations[number++ % 2], &made, problem, sizeof problem);
  Require(code == CTRLAB_PROCESSOR_OK, "A processor is made of " + folder, problem);
  return made;
}

void Release(ctrlab_processor processor) {
  char problem[1000];
  Require(The().release(processor, problem, sizeof problem) == CTRLAB_PROCESSOR_OK, "A processor is released once", problem);
}

// The answers in JSON, which hold scores alone: the versions are copies, so an update answers a request in one way.
using Answers = std::map<std::pair<const Request*, int64_t>, std::string>;

void Add(const Request& request, int64_t update, const std::string& answer, Answers* answers) {
  const std::string& first = answers->try_emplace({&request, update}, answer).first->second;
  Require(answer == first, "Answers to " + request.path + " of update " + std::to_string(update) + " are " + first, answer);
}

struct Model {
  std::string folder;
  std::vector<Request> requests;
  std::atomic<ctrlab_processor> processor = 0;
};

// What a thread has seen of a model.
struct Seen {
  std::set<std::pair<int64_t, int64_t>> moments;  // version, update
  Answers answers;
};

void Ask(const Model& model, const Request& request, Seen* seen) {
  const ctrlab_processor processor = model.processor;
  const ctrlab_processor_request asked = {sizeof asked, request.format, request.body.data(), request.body.size(), request.header};
  ctrlab_processor_response response = {.struct_size = sizeof response};
  char problem[1000];
  const int32_t code = The().process(processor, &asked, &response, problem, sizeof problem);
  if (code == CTRLAB_PROCESSOR_INVALID && model.processor != processor) return;  // it was released
  const int32_t wanted = request.odd ? CTRLAB_PROCESSOR_INVALID : CTRLAB_PROCESSOR_OK;
  Require(code == wanted && (code == CTRLAB_PROCESSOR_OK) == (*problem == 0), request.path + " gets " + std::to_string(wanted),
          std::to_string(code) + " " + problem);
  if (code == CTRLAB_PROCESSOR_OK) seen->moments.emplace(response.version, response.update);
  if (code == CTRLAB_PROCESSOR_OK && request.format == CTRLAB_PROCESSOR_JSON) {
    Add(request, response.update, {response.data, response.size}, &seen->answers);
  }
  The().free(&response);
}

void Look(const Model& model) {
  const ctrlab_processor processor = model.processor;
  ctrlab_processor_response response = {.struct_size = sizeof response};
  char problem[1000];
  const int32_t code = The().info(processor, &response, problem, sizeof problem);
  Require(code == CTRLAB_PROCESSOR_OK || model.processor != processor, "A processor tells what it serves", problem);
  The().free(&response);
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) return 2;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(words[1]));
  const auto goes_on = [end] { return std::chrono::steady_clock::now() < end; };
  const size_t n = count - 2;
  std::vector<Model> models(n);
  for (size_t m = 0; m < n; ++m) {
    models[m].folder = words[m + 2];
    models[m].requests = RequestsIn(models[m].folder);
    models[m].processor = Make(models[m].folder);
  }
  std::vector<std::vector<Seen>> seen(kAskers, std::vector<Seen>(n));
  std::vector<std::thread> threads;
  for (int t = 0; t < kAskers; ++t) {
    threads.emplace_back([&, t] {
      // With pauses, in which the versions load.
      for (size_t i = t; goes_on(); ++i, std::this_thread::sleep_for(5ms)) {
        const Model& model = models[i % n];
        Ask(model, model.requests[i / n % model.requests.size()], &seen[t][i % n]);
      }
    });
  }
  for (Model& model : models) {
    threads.emplace_back([&] {
      std::ifstream moves(model.folder + "/moves");
      for (std::string from, to; goes_on() && moves >> from >> to; std::this_thread::sleep_for(200ms)) {
        std::filesystem::rename(model.folder + "/" + from, model.folder + "/" + to);
      }
    });
    threads.emplace_back([&] {
      for (; goes_on(); std::this_thread::sleep_for(2s)) Release(model.processor.exchange(Make(model.folder)));
    });
    // Seldom: what it locks would be order enough to hide where another lock is missing.
    threads.emplace_back([&] {
      for (; goes_on(); std::this_thread::sleep_for(100ms)) Look(model);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t m = 0; m < n; ++m) {
    Seen all;
    for (const std::vector<Seen>& of : seen) {
      all.moments.insert(of[m].moments.begin(), of[m].moments.end());
      for (const auto& [what, answer] : of[m].answers) Add(*what.first, what.second, answer, &all.answers);
    }
    for (const auto& [version, update] : all.moments) {
      std::printf("%lld.%lld ", static_cast<long long>(version), static_cast<long long>(update));
    }
    std::printf("\n");
    Release(models[m].processor);
  }
}
