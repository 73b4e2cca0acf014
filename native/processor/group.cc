#include "processor/group.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/threadpool.h"

namespace ctrlab::processor {

namespace {

// A pool as a call of a session takes it.
class Pool : public tensorflow::thread::ThreadPoolInterface {
 public:
  explicit Pool(int threads) : pool_(tensorflow::Env::Default(), "ctrlab_member", threads) {}

  void Schedule(std::function<void()> work) override { pool_.Schedule(std::move(work)); }
  int NumThreads() const override { return pool_.NumThreads(); }
  int CurrentThreadId() const override { return pool_.CurrentThreadId(); }

 private:
  tensorflow::thread::ThreadPool pool_;
};

cpu_set_t CpusOfThread() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  sched_getaffinity(0, sizeof cpus, &cpus);
  return cpus;
}

// "0-3,8"; false if the text is no such list.
bool ParseCpus(std::string_view text, cpu_set_t* cpus) {
  CPU_ZERO(cpus);
  const char *at = text.data(), *const end = at + text.size();
  for (;;) {
    int first, last;
    auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc()) return false;
    last = first;
    if (read.ptr < end && *read.ptr == '-') {
      read = std::from_chars(read.ptr + 1, end, last);
      if (read.ec != std::errc()) return false;
    }
    if (first < 0 || last < first || last >= CPU_SETSIZE) return false;
    for (int cpu = first; cpu <= last; ++cpu) CPU_SET(cpu, cpus);
    if (read.ptr == end) return true;
    if (*read.ptr != ',') return false;
    at = read.ptr + 1;
  }
}

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Group>> groups;
};

// Never destroyed: threads may still use it while the process ends.
Registry& TheRegistry() {
  static Registry& registry = *new Registry;
  return registry;
}

}  // namespace

bool PolicyOf(std::string_view name, Policy* policy) {
  constexpr std::pair<std::string_view, Policy> kPolicies[] = {
      {"round_robin", Policy::kRoundRobin}, {"by_model", Policy::kByModel}, {"least_in_flight", Policy::kLeastInFlight}};
  for (const auto& [known, found] : kPolicies) {
    if (known != name) continue;
    *policy = found;
    return true;
  }
  return false;
}

Group::Member::~Member() = default;

Group::Inside::Inside(Group* group, Member* member) : group_(group), member_(member) {
  if (!member->bound) return;
  before_ = CpusOfThread();
  bound_ = sched_setaffinity(0, sizeof member->cpus, &member->cpus) == 0;
}

Group::Inside::~Inside() {
  if (bound_) sched_setaffinity(0, sizeof before_, &before_);
  const std::lock_guard lock(group_->mutex_);
  --member_->inside;
  ++member_->answered;
}

Answer Group::Named(const GroupOptions& options, std::shared_ptr<Group>* group) {
  auto made = std::make_shared<Group>(options);
  if (options.name.empty()) {
    if (Answer bad = made->MakeMembers(); !bad.ok()) return bad;
    *group = std::move(made);
    return {};
  }
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  std::weak_ptr<Group>& place = registry.groups[options.name];
  if (std::shared_ptr<Group> found = place.lock()) {
    if (found->options_ != options) {
      return Invalid("Processors that name one group give it the same options; received others for ", Shown(options.name),
                     ": give them the same, or name another group.");
    }
    *group = std::move(found);
    return {};
  }
  if (Answer bad = made->MakeMembers(); !bad.ok()) return bad;
  place = made;
  *group = std::move(made);
  return {};
}

Answer Group::MakeMembers() {
  const cpu_set_t before = CpusOfThread();
  const int cores = CPU_COUNT(&before);
  if (options_.members > cores) {
    return Invalid("A group has at most a member for each CPU of the process, ", cores, "; received ", options_.members,
                   " members.");
  }
  if (!options_.cpus.empty() && std::ssize(options_.cpus) != options_.members) {
    return Invalid("A group's \"cpus\" has a set for each of its ", options_.members, " members; received ", options_.cpus.size(),
                   ".");
  }
  for (int32_t m = 0; m < options_.members; ++m) {
    auto member = std::make_unique<Member>();
    member->cpus = before;
    if (!options_.cpus.empty()) {
      const std::string& text = options_.cpus[m];
      if (!ParseCpus(text, &member->cpus)) {
        return Invalid("A member's CPUs are numbers and ranges, such as 0-3,8; received ", Shown(text), ".");
      }
      cpu_set_t both;
      CPU_AND(&both, &member->cpus, &before);
      if (!CPU_EQUAL(&both, &member->cpus)) {
        return Invalid("A member's CPUs are some that the process may use; received ", Shown(text), " with others.");
      }
      member->bound = true;
    }
    member->threads = options_.threads ? options_.threads : CPU_COUNT(&member->cpus);
    if (member->threads > 1) {
      // A thread inherits the CPUs of the one that starts it.
      if (member->bound) sched_setaffinity(0, sizeof member->cpus, &member->cpus);
      member->pool = std::make_unique<Pool>(member->threads);
      if (member->bound) sched_setaffinity(0, sizeof before, &before);
    }
    members_.push_back(std::move(member));
  }
  return {};
}

Group::Member* Group::Pick(const std::string& model) {
  const std::lock_guard lock(mutex_);
  size_t m = 0;
  switch (options_.policy) {
    case Policy::kRoundRobin:
      m = next_++ % members_.size();
      break;
    case Policy::kByModel:
      m = seats_.try_emplace(model, seats_.size()).first->second % members_.size();
      break;
    case Policy::kLeastInFlight:
      m = std::min_element(members_.begin(), members_.end(), [](const auto& a, const auto& b) { return a->inside < b->inside; }) -
          members_.begin();
      break;
  }
  ++members_[m]->inside;
  return members_[m].get();
}

std::string Group::Info() const {
  const std::lock_guard lock(mutex_);
  std::string json = "[";
  for (size_t m = 0; m < members_.size(); ++m) {
    const Member& member = *members_[m];
    json += (m ? ", " : "") + std::string("{\"threads\": ") + std::to_string(member.threads) +
            ", \"inside\": " + std::to_string(member.inside) + ", \"answered\": " + std::to_string(member.answered) + "}";
  }
  return json + "]";
}

}  // namespace ctrlab::processor
