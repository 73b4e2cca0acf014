// The JSON of a processor's configuration.

#include <simdjson.h>

#include "processor/processor.h"

namespace ctrlab::processor {

namespace {

Answer ParseGroup(const simdjson::dom::object& fields, GroupOptions* group) {
  for (const auto& [name, value] : fields) {
    const auto odd = [&](const char* wanted) {
      return Invalid("A group's \"", std::string(name), "\" must be ", wanted, "; received ", simdjson::minify(value), ".");
    };
    int64_t number;
    std::string_view text;
    simdjson::dom::array sets;
    if (name == "name") {
      if (value.get(text) != simdjson::SUCCESS || text.empty()) return odd("text that is not empty");
      group->name = text;
    } else if (name == "members") {
      if (value.get(number) != simdjson::SUCCESS || number < 1 || number > 1024) return odd("a whole number in [1, 1024]");
      group->members = static_cast<int32_t>(number);
    } else if (name == "policy") {
      const bool known = value.get(text) == simdjson::SUCCESS && PolicyOf(text, &group->policy);
      if (!known) return odd("round_robin, by_model or least_in_flight");
    } else if (name == "cpus") {
      const char* wanted = "a list of sets of CPUs, such as [\"0-3\", \"4-7\"]";
      if (value.get(sets) != simdjson::SUCCESS || sets.size() == 0) return odd(wanted);
      for (const auto& set : sets) {
        if (set.get(text) != simdjson::SUCCESS) return odd(wanted);
        group->cpus.emplace_back(text);
      }
    } else {
      return Invalid("A group has name, members, policy and cpus; ", std::string(name), " is unknown.");
    }
  }
  return {};
}

}  // namespace

Answer Configuration::Parse(std::string_view json, Configuration* configuration) {
  simdjson::dom::parser parser;
  simdjson::dom::object fields;
  if (const auto error = parser.parse(json.data(), json.size()).get(fields); error) {
    return Invalid("A processor's configuration is a JSON object; this is none: ", simdjson::error_message(error));
  }
  for (const auto& [name, value] : fields) {
    const auto odd = [&](const char* wanted) {
      return Invalid("A processor's \"", std::string(name), "\" must be ", wanted, "; received ", simdjson::minify(value), ".");
    };
    int64_t number;
    std::string_view text;
    if (name == "name") {
      if (value.get(text) != simdjson::SUCCESS || text.empty()) return odd("text that is not empty");
      configuration->name = text;
    } else if (name == "version") {
      if (value.get(number) != simdjson::SUCCESS || number < 1) return odd("a whole number of at least 1");
      configuration->version = number;
    } else if (name == "intra_op_threads") {
      if (value.get(number) != simdjson::SUCCESS || number < 0 || number > 4096) return odd("a whole number in [0, 4096]");
      configuration->group.threads = static_cast<int32_t>(number);
    } else if (name == "group") {
      simdjson::dom::object group;
      if (value.get(group) != simdjson::SUCCESS) return odd("an object of name, members, policy, cpus");
      if (Answer bad = ParseGroup(group, &configuration->group); !bad.ok()) return bad;
    } else if (name == "poll_seconds") {
      double seconds;
      if (value.get(seconds) != simdjson::SUCCESS || !(seconds >= 0 && seconds <= 86'400)) return odd("a number in [0, 86400]");
      configuration->poll_seconds = seconds;
    } else if (name == "most_request_bytes") {
      if (value.get(number) != simdjson::SUCCESS || number < 1) return odd("a whole number of at least 1");
      configuration->most_request_bytes = number;
    } else if (name == "most_model_bytes") {
      if (value.get(number) != simdjson::SUCCESS || number < 1 || number > int64_t{1} << 50)
        return odd("a whole number in [1, 2^50]");
      configuration->most_model_bytes = number;
    } else if (name == "batch_rows") {
      if (value.get(number) != simdjson::SUCCESS || number < 0 || number > 1'000'000)
        return odd("a whole number in [0, 1000000]");
      configuration->batch_rows = number;
    } else if (name == "batch_wait_micros") {
      if (value.get(number) != simdjson::SUCCESS || number < 0 || number > 1'000'000)
        return odd("a whole number in [0, 1000000]");
      configuration->batch_wait_micros = number;
    } else if (name == "ignore_unknown") {
      if (value.get(configuration->ignore_unknown) != simdjson::SUCCESS) return odd("true or false");
    } else if (name == "most_slowdown") {
      double times;
      if (value.get(times) != simdjson::SUCCESS || !(times >= 0 && times <= 1e9)) return odd("a number in [0, 1e9]");
      configuration->most_slowdown = times;
    } else {
      return Invalid(
          "A processor's configuration has name, version, intra_op_threads, group, poll_seconds, "
          "most_request_bytes, most_model_bytes, batch_rows, batch_wait_micros, ignore_unknown, most_slowdown; ",
          std::string(name), " is unknown.");
    }
  }
  return {};
}

}  // namespace ctrlab::processor
