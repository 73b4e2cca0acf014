// A batch's columns as tensors. They share Arrow's memory if it is one aligned piece; otherwise they are copies.

#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "reader/rows.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/kernels/ragged_tensor_variant.h"

namespace ctrlab::parquet {

using tensorflow::DataType;
using tensorflow::Tensor;
using tensorflow::tstring;

// Arrow's memory as a tensor's buffer. TensorFlow only reads it, because the buffer does not own the memory.
class ArrowBuffer : public tensorflow::TensorBuffer {
 public:
  ArrowBuffer(std::shared_ptr<arrow::Buffer> memory, const void* data, size_t size)
      : TensorBuffer(const_cast<void*>(data)), memory_(std::move(memory)), size_(size) {}
  size_t size() const override { return size_; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tensorflow::AllocationDescription* description) const override {
    description->set_allocated_bytes(size_);
  }
  bool OwnsMemory() const override { return false; }

 private:
  const std::shared_ptr<arrow::Buffer> memory_;
  const size_t size_;
};

inline DataType TypeOf(Kind kind) {
  switch (kind) {
    case Kind::kFloat:
      return tensorflow::DT_FLOAT;
    case Kind::kInt32:
      return tensorflow::DT_INT32;
    case Kind::kInt64:
      return tensorflow::DT_INT64;
    case Kind::kText:
      return tensorflow::DT_STRING;
  }
  return tensorflow::DT_INVALID;
}

// A batch's columns as tensors.
class Tensors {
 public:
  Tensors(const std::vector<Run>& runs, int64_t rows, tensorflow::Allocator* allocator)
      : runs_(runs), rows_(rows), allocator_(allocator) {}

  Tensor Make(int c, const ColumnSpec& spec) const {
    if (spec.form == ColumnSpec::kList) return List(c, spec);
    if (spec.form == ColumnSpec::kOne && spec.kind != Kind::kText) return Numbers(c, spec.kind);
    Tensor texts(allocator_, tensorflow::DT_STRING, {rows_});
    tstring* to = texts.flat<tstring>().data();
    const auto put = [&](std::string_view text) { (to++)->assign(text.data(), text.size()); };
    spec.form == ColumnSpec::kJoined ? EachJoined(runs_, c, spec, put) : EachText(runs_, c, put);
    return texts;
  }

  // Columns [first, last) side by side.
  Tensor Labels(int first, int last) const {
    const int64_t count = last - first;
    Tensor labels;
    if (count == 1) {
      CHECK(labels.CopyFrom(Numbers(first, Kind::kFloat), {rows_, 1}));  // shares the memory
      return labels;
    }
    labels = Tensor(allocator_, tensorflow::DT_FLOAT, {rows_, count});
    float* to = labels.flat<float>().data();
    std::vector<float> column(rows_);
    for (int64_t k = 0; k < count; ++k) {
      CopyNumbers(runs_, first + k, sizeof(float), column.data());
      for (int64_t b = 0; b < rows_; ++b) to[b * count + k] = column[b];
    }
    return labels;
  }

 private:
  Tensor Numbers(int c, Kind kind) const {
    const int64_t width = WidthOf(kind);
    if (runs_.size() == 1) {
      const Column& column = (*runs_[0].columns)[c];
      if (const uint8_t* data = column.numbers + runs_[0].start * width; Fits(data)) return Borrow(kind, column, data, rows_);
    }
    Tensor numbers(allocator_, TypeOf(kind), {rows_});
    CopyNumbers(runs_, c, width, numbers.data());
    return numbers;
  }

  Tensor List(int c, const ColumnSpec& spec) const {
    Tensor splits(allocator_, tensorflow::DT_INT64, {rows_ + 1});
    const int64_t count = CopySplits(runs_, c, splits.flat<int64_t>().data());
    Tensor entries = Entries(c, spec, count);
    Tensor variant(tensorflow::DT_VARIANT, {});
    variant.scalar<tensorflow::Variant>()() = tensorflow::RaggedTensorVariant(std::move(entries), {std::move(splits)});
    return variant;
  }

  Tensor Entries(int c, const ColumnSpec& spec, int64_t count) const {
    const int64_t width = WidthOf(spec.kind);
    if (spec.kind != Kind::kText && runs_.size() == 1 && count) {
      const Column& column = (*runs_[0].columns)[c];
      const uint8_t* data = column.numbers + column.offsets[runs_[0].start] * width;
      if (Fits(data)) return Borrow(spec.kind, column, data, count);
    }
    Tensor entries(allocator_, TypeOf(spec.kind), {count});
    if (spec.kind == Kind::kText) {
      tstring* to = entries.flat<tstring>().data();
      EachText(runs_, c, [&](std::string_view text) { (to++)->assign(text.data(), text.size()); });
    } else {
      CopyEntries(runs_, c, width, entries.data());
    }
    return entries;
  }

  // TensorFlow's kernels may abort the process if a tensor is not aligned like its own allocator's memory.
  static bool Fits(const void* data) {
    return reinterpret_cast<uintptr_t>(data) % tensorflow::Allocator::kAllocatorAlignment == 0;
  }

  static Tensor Borrow(Kind kind, const Column& column, const void* data, int64_t count) {
    tensorflow::core::RefCountPtr<tensorflow::TensorBuffer> buffer(new ArrowBuffer(column.memory, data, count * WidthOf(kind)));
    return Tensor(TypeOf(kind), {count}, std::move(buffer));
  }

  const std::vector<Run>& runs_;
  const int64_t rows_;
  tensorflow::Allocator* const allocator_;
};

}  // namespace ctrlab::parquet
