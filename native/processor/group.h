// A session group: members in which requests run. Each member has its own threads and, if the options say so, its own CPUs.
// Processors of one process that name the same group share its members. They share weights and tables in any case, because a
// processor has one session.
//
// The caller's thread does the work of a request, bound to its member's CPUs meanwhile. A member of several threads has a pool,
// among which an op splits its work; one of a single thread needs none.

#pragma once

#include <sched.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "processor/inputs.h"
#include "tensorflow/core/platform/threadpool_interface.h"

namespace ctrlab::processor {

enum class Policy { kRoundRobin, kByModel, kLeastInFlight };

// false if the name is none of round_robin, by_model, least_in_flight.
bool PolicyOf(std::string_view name, Policy* policy);

struct GroupOptions {
  std::string name;  // empty: shared with nobody
  int32_t members = 1;
  int32_t threads = 1;  // per member; 0: one per CPU that the member has
  Policy policy = Policy::kRoundRobin;
  std::vector<std::string> cpus;  // per member, such as "0-3,8"; empty: the CPUs of the process

  bool operator==(const GroupOptions&) const = default;
};

class Group {
  struct Member {
    ~Member();

    bool bound = false;
    cpu_set_t cpus;
    int32_t threads = 1;
    std::unique_ptr<tensorflow::thread::ThreadPoolInterface> pool;  // null with a single thread
    int64_t inside = 0, answered = 0;
  };

 public:
  // A request's stay in a member. Made and destroyed by one thread, which then has the CPUs that it had before.
  class Inside {
   public:
    Inside(Group* group, Member* member);
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

    tensorflow::thread::ThreadPoolInterface* pool() const { return member_->pool.get(); }

   private:
    Group* const group_;
    Member* const member_;
    bool bound_ = false;
    cpu_set_t before_;
  };

  // The group of this name, made if there is none. Refused if it exists with other options, or if the CPUs are invalid.
  static Answer Named(const GroupOptions& options, std::shared_ptr<Group>* group);

  explicit Group(GroupOptions options) : options_(std::move(options)) {}

  // Enters the member that the policy picks. With by_model, each new model gets the next member in turn, and keeps it.
  // Thread-safe.
  Inside Enter(const std::string& model) { return {this, Pick(model)}; }

  // [{"threads": 1, "inside": 0, "answered": 12}, ...]
  std::string Info() const;

 private:
  Answer MakeMembers();
  Member* Pick(const std::string& model);

  const GroupOptions options_;
  std::vector<std::unique_ptr<Member>> members_;
  mutable std::mutex mutex_;             // guards the next two, and the members' `inside` and `answered`
  size_t next_ = 0;                      // round_robin: the next request's member
  std::map<std::string, size_t> seats_;  // by_model: each model's member
};

}  // namespace ctrlab::processor
