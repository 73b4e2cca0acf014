// One loaded version of a model: a session, and the names of its inputs and output.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "processor/demand.h"
#include "processor/group.h"
#include "processor/tensors.h"
#include "serving/bundle.h"
#include "tensorflow/cc/saved_model/loader.h"

namespace ctrlab::processor {

constexpr const char* kSignature = "serving_default";
constexpr const char* kManifest = "ctrlab.json";  // in a version's folder; written last, so a folder without it is incomplete

class Servable {
 public:
  // Loads the version's folder, and runs its warm-up requests; refused if it does not answer them. Requests run in the group, as
  // requests of `model`.
  static Answer Load(const std::string& folder, int64_t version, const std::string& model, std::shared_ptr<Group> group,
                     std::shared_ptr<Servable>* servable);
  ~Servable();

  int64_t version() const { return version_; }
  const Signature& signature() const { return *signature_; }
  // What a call gives, by name in their order.
  struct OutputInfo {
    std::string name;
    Type type;
    Shape shape;  // with -1 for the rows
  };
  const std::vector<OutputInfo>& outputs() const { return outputs_; }
  const std::vector<std::string>& output_names() const { return output_names_; }
  // Whether the answer for a row does not depend on the other rows of the call.
  bool rows_apart() const { return rows_apart_; }

  // Its weights, which updates change; null in a stock export, whose weights are in its graph.
  serving::Bundle* weights() const { return weights_.get(); }
  // The weights' moment, and their bundle's longest pause. Both may be one update old when the caller reads them.
  serving::Moment moment() const;
  int64_t longest_pause() const;

  // What it takes for the rows of a request.
  const Demand& demand() const { return demand_; }

  // Thread-safe. The whole answer uses the weights of one moment. `values` gets a tensor for each of `outputs`, all with one number
  // of rows.
  Answer Run(const Tensors& inputs, std::vector<tensorflow::Tensor>* values, serving::Moment* moment) const;
  // The values of those outputs that a request asks for; of all if it names none. They stay those of the tensors.
  std::vector<Output> Chosen(const std::vector<tensorflow::Tensor>& values, const std::vector<std::string>& names) const;
  // This version's time for its warm-up requests, divided by that of `before`; 0 if `before` has other inputs, or can't answer
  // them.
  double SlowdownFrom(const Servable& before) const;

 private:
  Servable() = default;

  Answer FindSignature(const std::string& folder);
  void FindWeights();
  Answer WarmUp(const std::string& folder);
  Answer Call(tensorflow::Session::CallableHandle callable, const Tensors& inputs, std::vector<tensorflow::Tensor>* values,
              tensorflow::RunMetadata* traced, serving::Moment* moment) const;
  void MeasureDemand(tensorflow::CallableOptions options);

  int64_t version_ = 0;
  std::string model_;
  std::shared_ptr<Group> group_;
  bool rows_apart_ = true;
  std::shared_ptr<serving::Bundle> weights_;
  tensorflow::SavedModelBundle bundle_;
  tensorflow::Session::CallableHandle callable_ = -1;
  std::unique_ptr<Signature> signature_;
  std::vector<std::string> feeds_, fetches_;  // the tensor of each input, and of each output
  std::vector<OutputInfo> outputs_;
  std::vector<std::string> output_names_;
  std::vector<Tensors> warm_up_;
  Demand demand_;
};

}  // namespace ctrlab::processor
