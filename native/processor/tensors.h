// The arrays of a request as TensorFlow's tensors.

#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "processor/inputs.h"
#include "tensorflow/core/framework/tensor.h"

namespace ctrlab::processor {

inline tensorflow::DataType DataTypeOf(Type type) { return static_cast<tensorflow::DataType>(FactsOf(type).tensorflow); }

// The arrays of a request, as the tensors that are fed to the session.
class Tensors : public Arrays {
 public:
  explicit Tensors(const Signature& signature) : signature_(signature), tensors_(signature.size()) {}
  // Joins the rows of several requests, in order. `Rows` of each must not be -1.
  Tensors(const Signature& signature, const std::vector<const Tensors*>& requests);

  bool Make(int32_t i, const Shape& shape, void** data) override;
  void SetText(int32_t i, int64_t k, std::string_view text) override;
  bool Ignore(std::string_view name) override {
    if (ignored && ignored->size() < kMostIgnored) ignored->emplace(Shown(name));
    return ignored != nullptr;
  }
  static constexpr size_t kMostIgnored = 100;
  // Where the names of inputs go that the model does not know; null: a request must have none.
  std::set<std::string>* ignored = nullptr;
  const std::vector<tensorflow::Tensor>& all() const { return tensors_; }
  // The number of rows of all columns; -1 if they differ, if splits are invalid, or if rows may have any size.
  int64_t Rows() const;

 private:
  const Signature& signature_;
  std::vector<tensorflow::Tensor> tensors_;
};

}  // namespace ctrlab::processor
