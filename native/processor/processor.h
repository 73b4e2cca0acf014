// A model's folder, served: the newest version that answers, and a thread that looks for newer ones.

#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "processor/inputs.h"
#include "processor/processor_c.h"
#include "processor/servable.h"

namespace ctrlab::processor {

struct Configuration {
  std::string name;
  int64_t version = -1;  // the only one to serve; -1: the newest
  int32_t intra_op_threads = 1;
  double poll_seconds = 1;
  int64_t most_request_bytes = int64_t{64} << 20;

  static Answer Parse(std::string_view json, Configuration* configuration);
};

class Processor {
 public:
  static Answer Make(const std::string& folder, Configuration configuration, std::shared_ptr<Processor>* processor);
  ~Processor();

  // The version that serves now. It stays as long as somebody holds it.
  std::shared_ptr<const Servable> current() const;
  // `header` is how many bytes of the request are JSON where tensors stand behind it, else -1; and then that of the response.
  Answer Process(const Servable& servable, int32_t format, std::string_view request, int64_t* header,
                 std::string* response) const;
  std::string Info() const;

 private:
  Processor(std::string folder, Configuration configuration)
      : folder_(std::move(folder)), configuration_(std::move(configuration)) {}

  Answer RequireServed(const Servable& servable, const Addressee& asked) const;
  // The newest version that is newer than the current one and can be loaded becomes current. Others are tried only once.
  void LookForVersions();
  void Watch();

  const std::string folder_;
  const Configuration configuration_;
  mutable std::mutex mutex_;  // guards the next three
  std::shared_ptr<const Servable> current_;
  std::map<int64_t, std::string> refused_;  // version -> why it is not served
  bool ends_ = false;
  std::condition_variable wakes_;
  std::thread watcher_;
};

}  // namespace ctrlab::processor
