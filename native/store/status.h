// The result of an engine call: success, or one sentence with the rule, what was received, where, and the cure.

#pragma once

#include <string>
#include <utility>

namespace ctrlab::embedding {

class [[nodiscard]] Status {
 public:
  Status() = default;
  explicit Status(std::string problem) : problem_(std::move(problem)) {}
  // With a sentence of static storage, so that reporting an out-of-memory error allocates nothing.
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
