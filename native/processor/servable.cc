#include "processor/servable.h"

#include <simdjson.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <new>
#include <shared_mutex>

#include "processor/predict.h"
#include "processor/verified.h"
#include "tensorflow/cc/saved_model/reader.h"
#include "tensorflow/core/lib/io/record_reader.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/threadpool_options.h"
#include "tensorflow/core/public/session_options.h"

namespace ctrlab::processor {

namespace {

// Between a probability here and on the exporter's machine. Products in bfloat16 differ most.
constexpr double kTolerance = 1e-3;

// Two versions are compared on so many warm-up requests at most, and the fastest round counts: other work of the machine only adds.
constexpr size_t kPaceRequests = 20;
constexpr int kPaceRounds = 10;

// The ops of a bundle of weights, and the one that loads it.
constexpr const char *kOurs = "Ctrlab>Serving", *kOpen = "Ctrlab>ServingOpen";

constexpr int32_t kCallersThread = -1;  // as RunOptions names it: cheapest, since a request is one thread's work

bool TypeOf(tensorflow::DataType dtype, Type* type) {
  for (size_t k = 0; k < std::size(kTypes); ++k) {
    if (kTypes[k].tensorflow != dtype) continue;
    *type = static_cast<Type>(k);
    return true;
  }
  return false;
}

// What the op said. TensorFlow adds the node's name to it, on a line of its own or in braces; an assertion's sentence comes first
// of several texts in brackets, the others show its tensors.
std::string SentenceOf(const absl::Status& status) {
  std::string text(status.message());
  if (text.rfind("{{node ", 0) == 0) text.erase(0, text.find("}} ") + 3);
  text.erase(std::min(text.find("\n\t [[{{node"), text.size()));
  constexpr char kAsserted[] = "assertion failed: [";
  if (text.rfind(kAsserted, 0) != 0) return text;
  text.erase(0, sizeof(kAsserted) - 1);
  text.erase(std::min({text.find("] ["), text.rfind(']'), text.size()}));
  return text;
}

Answer AnswerOf(const absl::Status& status) {
  if (status.ok()) return {};
  const bool refused = absl::IsInvalidArgument(status) || absl::IsOutOfRange(status);
  const Code code = refused ? Code::kInvalid : absl::IsResourceExhausted(status) ? Code::kUnavailable : Code::kFailed;
  return {code, SentenceOf(status)};
}

// As LoadSavedModel does, with a bundle of weights of this folder's own: updates of one version are none of a copy's.
absl::Status LoadOwn(const tensorflow::SessionOptions& options, const std::string& folder, tensorflow::SavedModelBundle* bundle) {
  tensorflow::MetaGraphDef& graph = bundle->meta_graph_def;
  absl::Status status = tensorflow::ReadMetaGraphDefFromSavedModel(folder, {"serve"}, &graph);
  if (!status.ok()) return status;
  struct stat about;
  if (stat((folder + "/assets/weights").c_str(), &about) == 0) {
    const std::string file = "@" + std::to_string(about.st_dev) + "." + std::to_string(about.st_ino) + "." +
                             std::to_string(about.st_ctim.tv_sec) + "." + std::to_string(about.st_ctim.tv_nsec);
    for (tensorflow::NodeDef& node : *graph.mutable_graph_def()->mutable_node()) {
      if (node.op().rfind(kOurs, 0) == 0) (*node.mutable_attr())["bundle"].mutable_s()->append(file);
    }
  }
  status = tensorflow::LoadMetagraphIntoSession(options, graph, &bundle->session);
  return status.ok() ? tensorflow::RestoreSession({}, graph, folder, &bundle->session) : status;
}

}  // namespace

Answer Servable::Load(const std::string& folder, int64_t version, const std::string& model, std::shared_ptr<Group> group,
                      std::shared_ptr<Servable>* servable) {
  std::shared_ptr<Servable> made(new Servable);
  made->version_ = version;
  made->model_ = model;
  made->group_ = std::move(group);
  tensorflow::SessionOptions options;
  options.config.set_intra_op_parallelism_threads(1);
  options.config.set_inter_op_parallelism_threads(1);
  options.config.set_use_per_session_threads(true);
  (*options.config.mutable_device_count())["GPU"] = 0;  // our ops are compiled for the CPU
  const absl::Status loaded = LoadOwn(options, folder, &made->bundle_);
  if (!loaded.ok()) {
    const bool passing = absl::IsResourceExhausted(loaded) || IsOfTheMoment(loaded.message());
    return Refusal(passing ? Code::kUnavailable : Code::kFailed, "Version ", folder, " can't be loaded: ", SentenceOf(loaded));
  }
  if (Answer bad = made->FindSignature(folder); !bad.ok()) return bad;
  made->FindWeights();
  tensorflow::CallableOptions callable;
  for (const std::string& feed : made->feeds_) callable.add_feed(feed);
  for (const std::string& fetch : made->fetches_) callable.add_fetch(fetch);
  callable.mutable_run_options()->set_inter_op_thread_pool(kCallersThread);
  const absl::Status ready = made->bundle_.GetSession()->MakeCallable(callable, &made->callable_);
  if (!ready.ok()) return Refusal(Code::kFailed, "Version ", folder, " can't be run: ", SentenceOf(ready));
  if (Answer bad = made->WarmUp(folder); !bad.ok()) return bad;
  made->MeasureDemand(callable);
  *servable = std::move(made);
  return {};
}

Servable::~Servable() {
  if (callable_ >= 0) static_cast<void>(bundle_.GetSession()->ReleaseCallable(callable_));
}

namespace {

// A file that was there and right a moment ago.
Answer Unread(const std::string& path) { return Refusal(Code::kUnavailable, path, " can't be read now."); }

// What the manifest says of columns: which are of ids, whose texts are words, which are of users that candidates share (none where
// users are not shared), and their defaults.
Answer FindColumns(const std::string& folder, std::vector<Signature::Input>* inputs, std::vector<std::string>* per_user,
                   Signature::Defaults* defaults) {
  simdjson::dom::parser parser;
  simdjson::dom::element manifest;
  simdjson::dom::array columns;
  if (parser.load(folder + "/" + kManifest).get(manifest) != simdjson::SUCCESS) return Unread(folder + "/" + kManifest);
  if (manifest["inputs"].get(columns) != simdjson::SUCCESS) return {};
  bool shared = false;
  for (const simdjson::dom::element& each : columns) {
    std::string_view column, role;
    if (each["column"].get(column) != simdjson::SUCCESS || each["role"].get(role) != simdjson::SUCCESS) continue;
    shared |= role == "count";
    if (role == "user" || role == "context") per_user->emplace_back(column);
    std::string_view encoding;
    const bool ids = each["encoding"].get(encoding) == simdjson::SUCCESS && !encoding.empty();
    for (Signature::Input& input : *inputs) {
      const bool of_column = input.name == column || input.name == std::string(column) + "/values";
      if (of_column && input.type == Type::kText) input.words = ids;
    }
    simdjson::dom::element value;
    if (each["default"].get(value) != simdjson::SUCCESS || value.is_null()) continue;
    Signature::Default& found = (*defaults)[std::string(column)];
    found.json = simdjson::minify(value);
    static_cast<void>(value.get(found.number));  // a word or a list is none: an empty one stands for it
    static_cast<void>(value.get(found.whole));
  }
  if (!shared) per_user->clear();
  if (!shared) return {};
  const Signature found(*inputs, *per_user);
  const auto of_users = std::count_if(found.columns().begin(), found.columns().end(), [](const auto& c) { return c.per_user; });
  if (found.counts() >= 0 && found[found.counts()].type == Type::kInt64 && of_users > 0 &&
      of_users < std::ssize(found.columns())) {
    return {};
  }
  return Refusal(Code::kFailed, "A version whose candidates share users has the int64 input ", Signature::kCounts,
                 " and columns of both; ", folder, " has not: write it by ctrlab export.");
}

// The sizes of an array whose first size is the number of rows. False if it has none, or says nothing of itself.
bool ReadShape(const tensorflow::TensorShapeProto& said, Shape* shape) {
  for (const auto& dim : said.dim()) shape->push_back(dim.size());
  return !said.unknown_rank() && !shape->empty();
}

}  // namespace

Answer Servable::FindSignature(const std::string& folder) {
  const auto& signatures = bundle_.GetSignatures();
  const auto at = signatures.find(kSignature);
  if (at == signatures.end() || at->second.outputs().empty()) {
    return Refusal(Code::kFailed, "A version has the signature ", kSignature, " with an output; ", folder,
                   " has not: write it by ctrlab export.");
  }
  std::vector<Signature::Input> inputs;
  for (const auto& [name, info] : at->second.inputs()) {
    Type type;
    Shape shape;
    if (!TypeOf(info.dtype(), &type) || !ReadShape(info.tensor_shape(), &shape)) {
      return Refusal(Code::kFailed, "Inputs are arrays of rows, of text or of numbers; ", name, " of ", folder,
                     " is none: write the version by ctrlab export.");
    }
    inputs.push_back({name, type, Shape(shape.begin() + 1, shape.end())});
  }
  const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  std::sort(inputs.begin(), inputs.end(), by_name);
  for (const auto& input : inputs) feeds_.push_back(at->second.inputs().at(input.name).name());
  for (const auto& [name, info] : at->second.outputs()) {
    OutputInfo& output = outputs_.emplace_back();
    output.name = name;
    if (!TypeOf(info.dtype(), &output.type) || output.type == Type::kText || !ReadShape(info.tensor_shape(), &output.shape)) {
      return Refusal(Code::kFailed, "Outputs are arrays of rows of numbers; ", name, " of ", folder,
                     " is none: write the version by ctrlab export.");
    }
  }
  std::sort(outputs_.begin(), outputs_.end(), by_name);
  for (const OutputInfo& output : outputs_) {
    output_names_.push_back(output.name);
    fetches_.push_back(at->second.outputs().at(output.name).name());
  }
  std::vector<std::string> per_user;
  Signature::Defaults defaults;
  if (Answer bad = FindColumns(folder, &inputs, &per_user, &defaults); !bad.ok()) return bad;
  signature_ = std::make_unique<Signature>(std::move(inputs), per_user, defaults);
  return {};
}

void Servable::FindWeights() {
  for (const tensorflow::NodeDef& node : bundle_.meta_graph_def.graph_def().node()) {
    if (node.op() == kOpen) weights_ = serving::Bundle::Named(node.attr().at("bundle").s());  // TensorFlow has asked for it
  }
}

serving::Moment Servable::moment() const {
  if (!weights_) return {};
  const std::shared_lock inside(weights_->gate());
  return weights_->moment();
}

int64_t Servable::longest_pause() const {
  if (!weights_) return 0;
  const std::shared_lock inside(weights_->gate());
  return weights_->longest_pause();
}

Answer Servable::Run(const Tensors& inputs, std::vector<tensorflow::Tensor>* values, serving::Moment* moment) const {
  return Call(callable_, inputs, values, nullptr, moment);
}

Answer Servable::Call(tensorflow::Session::CallableHandle callable, const Tensors& inputs,
                      std::vector<tensorflow::Tensor>* values, tensorflow::RunMetadata* traced, serving::Moment* moment) const {
  absl::Status ran;
  {
    std::shared_lock<embedding::Gate> inside;
    if (weights_) inside = std::shared_lock(weights_->gate());
    const Group::Inside member = group_->Enter(model_);
    const tensorflow::thread::ThreadPoolOptions pools = {.intra_op_threadpool = member.pool()};
    ran = bundle_.GetSession()->RunCallable(callable, inputs.all(), values, traced, pools);
    if (weights_) *moment = weights_->moment();
  }
  if (!ran.ok()) return AnswerOf(ran);
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const tensorflow::Tensor& value = (*values)[o];
    if (value.dtype() == DataTypeOf(outputs_[o].type) && value.dims() > 0 && value.dim_size(0) == (*values)[0].dim_size(0))
      continue;
    return Refusal(Code::kFailed, "A model answers with a value of each output for each row; ", outputs_[o].name,
                   " of this one is ", value.DebugString(0), ".");
  }
  return {};
}

std::vector<Output> Servable::Chosen(const std::vector<tensorflow::Tensor>& values, const std::vector<std::string>& names) const {
  std::vector<Output> chosen;
  for (const std::string& name : names.empty() ? output_names_ : names) {
    const size_t o = std::find(output_names_.begin(), output_names_.end(), name) - output_names_.begin();
    Shape shape;
    for (const auto& dim : values[o].shape()) shape.push_back(dim.size);
    chosen.push_back({name, outputs_[o].type, std::move(shape), values[o].data()});
  }
  return chosen;
}

double Servable::SlowdownFrom(const Servable& before) const {
  using Clock = std::chrono::steady_clock;
  if (signature() != before.signature()) return 0;
  Clock::duration fastest[] = {Clock::duration::max(), Clock::duration::max()};
  for (int round = 0; round < kPaceRounds; ++round) {
    for (const Servable* const each : {this, &before}) {
      const auto begun = Clock::now();
      for (const Tensors& request : warm_up_) {
        std::vector<tensorflow::Tensor> values;
        serving::Moment moment;
        if (!each->Run(request, &values, &moment).ok()) return 0;
      }
      Clock::duration& least = fastest[each == this ? 0 : 1];
      least = std::min(least, Clock::now() - begun);
    }
  }
  return warm_up_.empty() ? 0 : std::chrono::duration<double>(fastest[0]) / std::chrono::duration<double>(fastest[1]);
}

namespace {

// The values of each row in turn, of all outputs, as the manifest has them.
std::vector<double> ByRows(const std::vector<Output>& outputs) {
  std::vector<double> found;
  for (int64_t row = 0; row < outputs[0].rows(); ++row) {
    for (const Output& output : outputs) {
      WithNumber(output.type, [&]<class T>(T) {
        const int64_t n = output.width();
        const T* const values = static_cast<const T*>(output.values) + row * n;
        for (int64_t k = 0; k < n; ++k) found.push_back(static_cast<double>(values[k]));
      });
    }
  }
  return found;
}

}  // namespace

Answer Servable::WarmUp(const std::string& folder) {
  simdjson::dom::parser parser;
  simdjson::dom::element manifest;
  if (parser.load(folder + "/" + kManifest).get(manifest) != simdjson::SUCCESS) return Unread(folder + "/" + kManifest);
  simdjson::dom::array expected;  // of each request, what the exporter got: [[p, ...], ...]
  const bool known = manifest["warm_up"].get(expected) == simdjson::SUCCESS;
  if (manifest["rows_apart"].get(rows_apart_) != simdjson::SUCCESS) rows_apart_ = false;
  tensorflow::Env* const env = tensorflow::Env::Default();
  const std::string path = folder + "/assets.extra/tf_serving_warmup_requests";
  std::unique_ptr<tensorflow::RandomAccessFile> file;
  const absl::Status opened = env->NewRandomAccessFile(path, &file);
  if (absl::IsNotFound(opened)) return {};  // an export without rows has none
  if (!opened.ok()) return Unread(path);
  tensorflow::io::SequentialRecordReader reader(file.get());
  tensorflow::tstring record;
  for (int64_t number = 0;; ++number) {
    const absl::Status read = reader.ReadRecord(&record);
    if (absl::IsOutOfRange(read)) return {};
    Tensors tensors(signature());
    std::vector<tensorflow::Tensor> values;
    PredictRequest request;
    Answer answer = AnswerOf(read);
    if (answer.ok()) {
      answer = ParsePredictRequest(RequestInLog({record.data(), record.size()}), signature(), output_names(), &request, &tensors);
    }
    serving::Moment moment;
    if (answer.ok()) answer = Run(tensors, &values, &moment);
    if (!answer.ok()) {
      return Refusal(answer.code == Code::kUnavailable ? Code::kUnavailable : Code::kFailed,
                     "A version answers its warm-up requests; ", path, " has one, number ", number,
                     ", that it refuses: ", answer.sentence);
    }
    const std::vector<double> found = ByRows(Chosen(values, {}));
    if (!std::all_of(found.begin(), found.end(), IsFinite<double>)) {
      return Refusal(Code::kFailed, "A version answers with finite numbers; ", folder, " does not for warm-up request ", number,
                     ".");
    }
    if (warm_up_.size() < kPaceRequests) warm_up_.push_back(std::move(tensors));
    // Another processor may have brought the weights to an update.
    if (!known || moment.update > 0) continue;
    size_t k = 0;
    simdjson::dom::array rows, row;
    if (expected.at(number).get(rows) != simdjson::SUCCESS) continue;
    for (const simdjson::dom::element& each : rows) {
      if (each.get(row) != simdjson::SUCCESS) break;
      for (const simdjson::dom::element& value : row) {
        double wanted;
        if (value.get(wanted) != simdjson::SUCCESS || k >= found.size() || std::abs(found[k] - wanted) > kTolerance) {
          return Refusal(Code::kFailed, "A version answers its warm-up requests as its exporter did; ", folder,
                         " does not, in request ", number, ": export the model again.");
        }
        ++k;
      }
    }
  }
}

}  // namespace ctrlab::processor
