// How a call of the engine ends: well, or with one sentence that says the rule, what was received, where, and the cure.

#pragma once

#include <string>
#include <utility>

namespace ctrlab::embedding {

class [[nodiscard]] Status {
 public:
  Status() = default;
  explicit Status(std::string problem) : problem_(std::move(problem)) {}
  // With a sentence that is there for ever, so that it takes no memory to say that there is none.
  static Status Constant(const char* problem) noexcept {
    Status status;
    status.constant_ = problem;
    return status;
  }
  bool ok() const { return !constant_ && problem_.empty(); }
  std::string problem() const { return text(); }
  const char* text() const noexcept { return constant_ ? constant_ : problem_.c_str(); }

 private:
  const char* constant_ = nullptr;
  std::string problem_;
};

}  // namespace ctrlab::embedding
