#include "processor/processor.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iomanip>
#include <sstream>

#include "processor/folder.h"
#include "processor/json.h"
#include "processor/loading.h"
#include "processor/predict.h"
#include "processor/verified.h"
#include "table/messages.h"

namespace ctrlab::processor {

namespace {

using Clock = std::chrono::steady_clock;
// Between two attempts to load a version, or an update, after an error of the moment; it doubles.
constexpr Clock::duration kFirstWait = std::chrono::milliseconds(500), kLongestWait = std::chrono::minutes(1);

void Append(const void* data, size_t size, std::string* to) {
  to->append(static_cast<const char*>(data), size);
  to->resize((to->size() + 7) / 8 * 8);
}

// Tensors of one dimension, as ctrlab_processor_parse says.
std::string WriteArrow(const std::vector<tensorflow::Tensor>& tensors) {
  std::string bytes;
  for (const tensorflow::Tensor& tensor : tensors) {
    const int64_t n = tensor.NumElements();
    Append(&n, sizeof n, &bytes);
    if (tensor.dtype() != tensorflow::DT_STRING) {
      Append(tensor.data(), tensor.TotalBytes(), &bytes);
      continue;
    }
    const auto texts = tensor.flat<tensorflow::tstring>();
    std::vector<int32_t> offsets(n + 1);  // `Parse` takes no request of 2 GiB
    for (int64_t k = 0; k < n; ++k) offsets[k + 1] = offsets[k] + static_cast<int32_t>(texts(k).size());
    Append(offsets.data(), offsets.size() * sizeof(int32_t), &bytes);
    for (int64_t k = 0; k < n; ++k) bytes.append(texts(k).data(), texts(k).size());
    Append("", 0, &bytes);
  }
  return bytes;
}

// Weights are finite, which exports and updates check. So it is the request's numbers of which a model makes others.
Answer RequireFinite(const std::vector<Output>& outputs) {
  for (const Output& output : outputs) {
    if (!IsFloat(output.type)) continue;
    const int64_t width = output.width(), count = output.rows() * width;
    const int64_t odd = WithNumber(output.type, [&]<class T>(T) -> int64_t {
      const T* const values = static_cast<const T*>(output.values);
      return std::find_if(values, values + count, [](T value) { return !IsFinite(value); }) - values;
    });
    if (odd == count) continue;
    return Invalid("A model answers with finite numbers; ", output.name, " of row ", odd / width,
                   " is none: the row's numbers are too large for this model, or it divides by one of them.");
  }
  return {};
}

}  // namespace

Answer Processor::Make(const std::string& folder, Configuration configuration, std::shared_ptr<Processor>* processor) {
  if (configuration.name.empty()) {
    std::error_code none;
    configuration.name = std::filesystem::canonical(folder, none).filename();
  }
  std::shared_ptr<Processor> made(new Processor(folder, std::move(configuration)));
  if (Answer bad = Group::Named(made->configuration_.group, &made->group_); !bad.ok()) return bad;
  made->LookForVersions();
  if (!made->current_) {
    if (made->refused_.empty()) {
      return Refusal(Code::kNotFound, "A model's folder holds versions, such as ", folder, "/1; there is ",
                     made->configuration_.version < 0 ? "none" : "no version " + std::to_string(made->configuration_.version),
                     ": write one by ctrlab export.", OddNameIn(folder));
    }
    const auto& refused = made->refused_;  // that of the newest is told; any that may pass is worth another attempt
    const bool passing = std::any_of(refused.begin(), refused.end(), [](const auto& each) { return each.second.passing; });
    return {passing ? Code::kUnavailable : Code::kFailed, refused.rbegin()->second.why};
  }
  if (made->configuration_.poll_seconds > 0) {
    made->watcher_ = std::thread(&Processor::Watch, made.get());
  }
  *processor = std::move(made);
  return {};
}

Processor::~Processor() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wakes_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

std::shared_ptr<const Servable> Processor::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

void Processor::LookForVersions() {
  const std::shared_ptr<const Servable> before = current();
  const std::vector<int64_t> versions = VersionsIn(folder_);
  const auto there = [&](int64_t version) { return std::find(versions.begin(), versions.end(), version) != versions.end(); };
  const int64_t serves = before ? before->version() : 0;
  const bool gone = before && !there(serves);
  {
    const std::lock_guard lock(mutex_);
    gone_ &= gone;
    std::erase_if(refused_, [&](const auto& each) { return !there(each.first) || (!gone && each.first < serves); });
  }
  for (const int64_t version : versions) {
    if (configuration_.version > 0 && version != configuration_.version) continue;
    if (!gone && version < serves) return;
    const std::string place = folder_ + "/" + std::to_string(version);
    std::string files;
    try {
      files = FilesIn(place);
    } catch (const std::exception& error) {
      if (version == serves) return;
      Refuse(version, "", Refusal(Code::kUnavailable, "Version ", place, " can't be read: ", error.what(), "."));
      continue;
    }
    if (version == serves && files == files_) {
      const std::lock_guard lock(mutex_);
      refused_.erase(version);  // changed files are what they were again
      return;
    }
    if (IsRefused(version, files)) continue;
    std::shared_ptr<Servable> found;
    Answer answer;
    try {
      answer = Load(place, version, &found);
      if (answer.ok() && FilesIn(place) != files) {
        answer = Refusal(Code::kUnavailable, "Version ", place, " changed while it was loaded: it is loaded again.");
      }
    } catch (const std::exception& error) {
      answer = Refusal(Code::kUnavailable, "Version ", place, " can't be loaded now: ", error.what(), ".");
    }
    if (answer.ok() && before && version >= serves) answer = RequirePace(*found, *before);
    if (!answer.ok()) {
      if (version == serves) {
        answer.sentence = "The files of " + place + " have changed, and those from before serve on: " + answer.sentence;
      }
      Refuse(version, std::move(files), std::move(answer));
      continue;
    }
    TakeUpdates(*found);
    files_ = std::move(files);
    const std::lock_guard lock(mutex_);
    current_ = std::move(found);
    ++loads_;
    gone_ = false;
    std::erase_if(refused_, [&](const auto& each) { return each.first <= version; });
    return;
  }
  const std::lock_guard lock(mutex_);
  gone_ = gone;  // and nothing takes its place
}

Answer Processor::Load(const std::string& place, int64_t version, std::shared_ptr<Servable>* found) const {
  std::string seal;
  if (Answer bad = SealOf(place, &seal); !bad.ok()) return bad;
  if (Answer bad = LoadingMark::Require(folder_, version, seal); !bad.ok()) return bad;
  if (Answer bad = Verify(place); !bad.ok()) return bad;
  const LoadingMark mark(folder_, version, seal);
  return Servable::Load(place, version, configuration_.name, group_, found);
}

bool Processor::IsRefused(int64_t version, const std::string& files) const {
  const std::lock_guard lock(mutex_);
  const auto at = refused_.find(version);
  return at != refused_.end() && at->second.files == files && !(at->second.passing && Clock::now() >= at->second.again);
}

void Processor::Refuse(int64_t version, std::string files, Answer answer) {
  const std::lock_guard lock(mutex_);
  const auto at = refused_.find(version);
  const bool passing = answer.code == Code::kUnavailable, before = at != refused_.end() && at->second.passing;
  const Clock::duration wait = before ? std::min(2 * at->second.wait, kLongestWait) : kFirstWait;
  refused_[version] = {std::move(answer.sentence), std::move(files), passing, wait, Clock::now() + wait};
}

Answer Processor::RequirePace(const Servable& found, const Servable& before) const {
  const double slowdown = configuration_.most_slowdown > 0 ? found.SlowdownFrom(before) : 0;
  if (slowdown <= configuration_.most_slowdown) return {};
  std::ostringstream sentence;
  sentence << std::setprecision(3) << "A newer version takes at most " << configuration_.most_slowdown
           << " times as long as the one that serves; " << folder_ << "/" << found.version() << " takes " << slowdown
           << " times as long as " << before.version()
           << " on its warm-up requests: export it with all optimizations, or configure most_slowdown.";
  return {Code::kFailed, sentence.str()};
}

void Processor::TakeUpdates(const Servable& servable) {
  if (!servable.weights()) {
    const std::lock_guard lock(mutex_);
    stopped_.clear();
    return;
  }
  const std::string updates = folder_ + "/" + std::to_string(servable.version()) + ".updates";
  std::string stopped;
  for (;;) {
    const int64_t next = servable.moment().update + 1;
    const std::string path = updates + "/" + std::to_string(next);
    struct stat about;
    if (stat(path.c_str(), &about) != 0) {
      const int64_t later = LargestNumberIn(updates);
      if (later > next && stat(path.c_str(), &about) == 0) continue;  // both have come since
      if (later > next) {
        stopped = "Updates follow each other; " + path + " is missing, and " + std::to_string(later) +
                  " is there: put it back, or publish a full version.";
      }
      break;
    }
    // One that was refused is tried again when it is another file.
    const std::string file = path + " " + std::to_string(about.st_ino) + " " + std::to_string(about.st_size) + " " +
                             std::to_string(about.st_mtim.tv_sec) + "." + std::to_string(about.st_mtim.tv_nsec);
    if (file == odd_update_.file && (!odd_update_.passing || Clock::now() < odd_update_.again)) return;
    {  // before the answers are of the update: whoever sees those never reads why there was none
      const std::lock_guard lock(mutex_);
      stopped_.clear();
    }
    const embedding::Status applied = servable.weights()->Apply(path);
    if (applied.ok() && servable.moment().update >= next) continue;
    const bool passing = !applied.ok() && IsOfTheMoment(applied.problem());
    const Clock::duration wait = file == odd_update_.file ? std::min(2 * odd_update_.wait, kLongestWait) : kFirstWait;
    odd_update_ = {file, passing, wait, Clock::now() + wait};
    stopped = applied.ok() ? path + " is an earlier update than its name says: publish a full version." : applied.problem();
    break;
  }
  const std::lock_guard lock(mutex_);
  stopped_ = std::move(stopped);
}

void Processor::Watch() {
  const std::chrono::duration<double> pause(configuration_.poll_seconds);
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (wakes_.wait_for(lock, pause, [this] { return ends_; })) return;
    }
    // If one fails, the version that serves serves on; the next look may find more memory, or a folder that can be read.
    try {
      LookForVersions();
    } catch (const std::exception&) {
    }
    try {
      TakeUpdates(*current());
    } catch (const std::exception&) {
    }
  }
}

Answer Processor::ParseRequest(const Servable& servable, int32_t format, std::string_view request, int64_t header,
                               Read* read) const {
  if (static_cast<int64_t>(request.size()) > configuration_.most_request_bytes) {
    return Invalid("A request has at most ", configuration_.most_request_bytes, " bytes; received ", request.size(),
                   ": split it, or configure most_request_bytes.");
  }
  const Signature& signature = servable.signature();
  Answer answer;
  switch (format) {
    case CTRLAB_PROCESSOR_PREDICT:
      answer = ParsePredictRequest(request, signature, servable.output_names(), &read->predict, &read->tensors);
      break;
    case CTRLAB_PROCESSOR_JSON:
      answer = ParseJsonRequest(request, signature, &read->predict.addressee, &read->tensors, &read->rows);
      break;
    case CTRLAB_PROCESSOR_INFER:
      answer = ParseInferRequest(request, signature, servable.output_names(), &read->infer, &read->tensors);
      break;
    case CTRLAB_PROCESSOR_INFER_JSON:
      answer = ParseInferJson(request, header, signature, servable.output_names(), &read->infer, &read->tensors);
      break;
    default:
      answer = Invalid("A request's format is one of ctrlab_processor_format; received ", format, ".");
  }
  const bool infers = format == CTRLAB_PROCESSOR_INFER || format == CTRLAB_PROCESSOR_INFER_JSON;
  return answer.ok() ? RequireServed(servable, infers ? read->infer.addressee : read->predict.addressee) : answer;
}

Answer Processor::Process(const Servable& servable, int32_t format, std::string_view request, int64_t header,
                          Response* response) {
  const auto begun = Clock::now();
  Read read(servable, configuration_);
  if (Answer bad = ParseRequest(servable, format, request, header, &read); !bad.ok()) return bad;
  if (!read.ignored.empty()) Note(read.ignored);
  const auto parsed = Clock::now();
  std::vector<tensorflow::Tensor> values;
  serving::Moment moment;
  if (Answer bad = batcher_.Run(servable, read.tensors, &values, &moment); !bad.ok()) return bad;
  const auto ran = Clock::now();
  const std::vector<Output> outputs =
      servable.Chosen(values, read.predict.outputs.empty() ? read.infer.outputs : read.predict.outputs);
  const Addressee by = {configuration_.name, "", kSignature, servable.version()};
  if (Answer bad = RequireFinite(outputs); !bad.ok()) return bad;
  response->version = servable.version();
  response->update = moment.update;
  response->bytes = format == CTRLAB_PROCESSOR_PREDICT ? WritePredictResponse(by, outputs)
                    : format == CTRLAB_PROCESSOR_JSON  ? WriteJsonResponse(outputs, read.rows)
                    : format == CTRLAB_PROCESSOR_INFER ? WriteInferResponse(by, read.infer, outputs)
                                                       : WriteInferJson(by, read.infer, outputs, &response->header);
  response->parse = parsed - begun;
  response->run = ran - parsed;
  response->write = Clock::now() - ran;
  return {};
}

Answer Processor::Parse(const Servable& servable, int32_t format, std::string_view request, int64_t header,
                        Response* response) const {
  if (request.size() > INT32_MAX) return Invalid("A request that is parsed has less than 2 GiB; received ", request.size(), ".");
  Read read(servable, configuration_);
  if (Answer bad = ParseRequest(servable, format, request, header, &read); !bad.ok()) return bad;
  response->version = servable.version();
  response->bytes = WriteArrow(read.tensors.all());
  return {};
}

Answer Processor::RequireServed(const Servable& servable, const Addressee& asked) const {
  if (!asked.signature.empty() && asked.signature != kSignature) {
    return Refusal(Code::kNotFound, "A model has the signature ", kSignature, "; received ", Shown(asked.signature), ".");
  }
  if (!asked.model.empty() && asked.model != configuration_.name) {
    return Refusal(Code::kNotFound, "The model ", configuration_.name, " is served; received a request for ", Shown(asked.model),
                   ": ask for that one, or configure its name.");
  }
  if (asked.version && *asked.version != servable.version()) {
    return Refusal(Code::kNotFound, "Version ", servable.version(), " of ", configuration_.name,
                   " is served; received a request for ", *asked.version, ".");
  }
  return {};
}

void Processor::Note(const std::set<std::string>& ignored) {
  const std::lock_guard lock(mutex_);
  for (const std::string& name : ignored) {
    if (ignored_.size() < Tensors::kMostIgnored) ignored_.insert(name);
  }
}

std::string Processor::Info() const {
  const std::shared_ptr<const Servable> servable = current();
  const serving::Moment moment = servable->moment();
  const std::lock_guard lock(mutex_);
  std::string json = "{\"name\": " + Quoted(configuration_.name) + ", \"version\": " + std::to_string(servable->version()) +
                     ", \"loads\": " + std::to_string(loads_) + ", \"gone\": " + (gone_ ? "true" : "false");
  json += ", \"update\": " + std::to_string(moment.update) + ", \"step\": " + std::to_string(moment.step) +
          ", \"read_micros\": " + std::to_string(moment.micros) +
          ", \"longest_pause_micros\": " + std::to_string(servable->longest_pause()) + ", \"stopped\": " + Quoted(stopped_) +
          ", \"batches\": " + std::to_string(batcher_.counts().calls) +
          ", \"batched_requests\": " + std::to_string(batcher_.counts().requests) + ", \"members\": " + group_->Info();
  const Signature& signature = servable->signature();
  const auto object = [&json](const char* name, size_t count, const auto& append) {
    json += std::string(", \"") + name + "\": {";
    for (size_t k = 0; k < count; ++k) {
      if (k) json += ", ";
      append(k);
    }
    json += '}';
  };
  const auto& outputs = servable->outputs();
  object("inputs", signature.size(),
         [&](size_t i) { json += Quoted(signature[i].name) + ": \"" + NameOf(signature[i].type) + '"'; });
  object("input_shapes", signature.size(),
         [&](size_t i) { json += Quoted(signature[i].name) + ": " + Words(signature[i].shape()); });
  object("outputs", outputs.size(), [&](size_t o) { json += Quoted(outputs[o].name) + ": \"" + NameOf(outputs[o].type) + '"'; });
  object("output_shapes", outputs.size(), [&](size_t o) { json += Quoted(outputs[o].name) + ": " + Words(outputs[o].shape); });
  std::string per_user, defaults;
  for (const Signature::Column& column : signature.columns()) {
    if (column.per_user) per_user += (per_user.empty() ? "" : ", ") + Quoted(column.name);
    if (column.missing) defaults += (defaults.empty() ? "" : ", ") + Quoted(column.name) + ": " + column.missing->json;
  }
  std::string words, ignored;
  for (int32_t i = 0; i < signature.size(); ++i) {
    if (signature[i].words) words += (words.empty() ? "" : ", ") + Quoted(signature[i].name);
  }
  for (const std::string& name : ignored_) ignored += (ignored.empty() ? "" : ", ") + Quoted(name);
  json += ", \"per_user\": [" + per_user + "], \"defaults\": {" + defaults + "}, \"words\": [" + words +
          "], \"ignores_unknown\": " + (configuration_.ignore_unknown ? "true" : "false") + ", \"ignored\": [" + ignored +
          "], \"refused\": {";
  for (bool first = true; const auto& [version, refused] : refused_) {
    json += (first ? "" : ", ") + Quoted(std::to_string(version)) + ": " + Quoted(refused.why);
    first = false;
  }
  return json + "}}";
}

}  // namespace ctrlab::processor
