// Serves a model's folder: the newest version that answers, with the updates that follow it. A thread looks for versions and
// updates, and follows the folder:
//
//   a newer version comes           it serves, if it can be loaded and is not too slow
//   the serving one's files change  they are another version: that is loaded, and serves in its place. If it can't be loaded, the
//                                   one from before serves on, and `Info` says why
//   the serving one is deleted      the newest of the others serves. If there is none, the deleted one serves on, and `Info` says so

#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "processor/batcher.h"
#include "processor/group.h"
#include "processor/inference.h"
#include "processor/inputs.h"
#include "processor/predict.h"
#include "processor/processor_c.h"
#include "processor/servable.h"

namespace ctrlab::processor {

struct Configuration {
  std::string name;
  int64_t version = -1;  // serve only this one; -1: the newest
  GroupOptions group;
  double poll_seconds = 1;
  int64_t most_request_bytes = int64_t{64} << 20;
  int64_t most_model_bytes = int64_t{1} << 30;
  int64_t batch_rows = 0;  // the most rows in a batch of requests; 0: no request waits for others
  int64_t batch_wait_micros = 1000;
  bool ignore_unknown = false;  // leave out a request's columns that the model does not know
  double most_slowdown = 10;    // a newer version may take this many times as long as the current one; 0: any time

  static Answer Parse(std::string_view json, Configuration* configuration);
};

struct Response {
  std::string bytes;
  int64_t header = -1;  // bytes of the answer that are JSON, if tensors follow them; otherwise -1
  int64_t version = 0, update = 0;
  std::chrono::nanoseconds parse{0}, run{0}, write{0};  // time of each stage
};

class Processor {
 public:
  static Answer Make(const std::string& folder, Configuration configuration, std::shared_ptr<Processor>* processor);
  ~Processor();

  // The version that serves now. It stays as long as somebody holds it.
  std::shared_ptr<const Servable> current() const;
  // `header` is the number of bytes of the request that are JSON, if tensors follow them; otherwise -1.
  Answer Process(const Servable& servable, int32_t format, std::string_view request, int64_t header, Response* response);
  // Parses a request and describes what it holds: see ctrlab_processor_parse.
  Answer Parse(const Servable& servable, int32_t format, std::string_view request, int64_t header, Response* response) const;
  std::string Info() const;

 private:
  // A version that is not served. It is tried again when its files have changed; after an error of the moment, such as too little
  // memory or too many open files, also after a while.
  struct Refused {
    std::string why, files;
    bool passing;
    std::chrono::steady_clock::duration wait;
    std::chrono::steady_clock::time_point again;
  };

  Processor(std::string folder, Configuration configuration)
      : folder_(std::move(folder)),
        configuration_(std::move(configuration)),
        batcher_(configuration_.batch_rows, std::chrono::microseconds(configuration_.batch_wait_micros)) {}

  // A parsed request, before the model runs.
  struct Read {
    Read(const Servable& servable, const Configuration& configuration) : tensors(servable.signature()) {
      if (configuration.ignore_unknown) tensors.ignored = &ignored;
      tensors.limit = servable.demand().In(configuration.most_model_bytes);
    }
    std::set<std::string> ignored;
    Tensors tensors;
    PredictRequest predict;  // of TensorFlow Serving's formats; `infer` of the others
    InferRequest infer;
    bool rows = false;
  };
  Answer ParseRequest(const Servable& servable, int32_t format, std::string_view request, int64_t header, Read* read) const;
  Answer RequireServed(const Servable& servable, const Addressee& asked) const;
  void Note(const std::set<std::string>& ignored);
  void LookForVersions();
  // Loads a version whose files are as they were exported, and at which no process ended lately.
  Answer Load(const std::string& place, int64_t version, std::shared_ptr<Servable>* found) const;
  bool IsRefused(int64_t version, const std::string& files) const;
  void Refuse(int64_t version, std::string files, Answer answer);
  Answer RequirePace(const Servable& found, const Servable& before) const;
  // Applies the updates that have arrived in folder/<version>.updates/<1, 2, ...>, in order.
  void TakeUpdates(const Servable& servable);
  void Watch();

  const std::string folder_;
  const Configuration configuration_;
  std::shared_ptr<Group> group_;
  Batcher batcher_;
  struct OddUpdate {
    std::string file;  // and its state then
    bool passing = false;
    std::chrono::steady_clock::duration wait{0};
    std::chrono::steady_clock::time_point again;
  };
  OddUpdate odd_update_;      // the update that was refused last; only the watcher uses it
  std::string files_;         // of the current version, before it was loaded; only the watcher uses it
  mutable std::mutex mutex_;  // guards the next seven
  std::shared_ptr<const Servable> current_;
  int64_t loads_ = 0;                   // the number of versions that became current
  bool gone_ = false;                   // whether the current version is no longer in the folder
  std::map<int64_t, Refused> refused_;  // by version
  std::set<std::string> ignored_;       // columns of requests that were left out, at most kMostIgnored
  std::string stopped_;                 // why the current version takes no more updates
  bool ends_ = false;
  std::condition_variable wakes_;
  std::thread watcher_;
};

}  // namespace ctrlab::processor
