// How a call of the engine ends: well, or with one sentence that says the rule, what was received, where, and the cure.

#pragma once

#include <string>
#include <utility>

namespace ctrlab::embedding {

class [[nodiscard]] Status {
 public:
  Status() = default;
  explicit Status(std::string problem) : problem_(std::move(problem)) {}
  bool ok() const { return problem_.empty(); }
  const std::string& problem() const { return problem_; }

 private:
  std::string problem_;
};

}  // namespace ctrlab::embedding
