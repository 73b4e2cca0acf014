#include "processor/tensors.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace ctrlab::processor {

bool Tensors::Make(int32_t i, const Shape& shape, void** data) {
  tensors_[i] = tensorflow::Tensor(DataTypeOf(signature_[i].type), tensorflow::TensorShape(shape));
  if (!tensors_[i].IsInitialized()) return false;
  *data = signature_[i].type == Type::kText ? nullptr : tensors_[i].data();
  return true;
}

void Tensors::SetText(int32_t i, int64_t k, std::string_view text) {
  tensors_[i].flat<tensorflow::tstring>()(k).assign(text.data(), text.size());
}

int64_t Tensors::Rows() const {
  int64_t rows[2] = {-1, -1};  // of candidates, of users
  for (const Signature::Column& column : signature_.columns()) {
    const Signature::Input& input = signature_[column.values];
    if (std::find(input.row.begin(), input.row.end(), -1) != input.row.end()) return -1;
    const tensorflow::Tensor& counted = tensors_[column.splits < 0 ? column.values : column.splits];
    const int64_t here = counted.dim_size(0) - (column.splits < 0 ? 0 : 1);
    if (here < 0 || (rows[column.per_user] >= 0 && here != rows[column.per_user])) return -1;
    rows[column.per_user] = here;
    if (column.splits < 0) continue;
    if (signature_[column.splits].type != Type::kInt64) return -1;
    const auto* const ends = static_cast<const int64_t*>(counted.data());
    if (ends[0] != 0 || ends[here] != tensors_[column.values].NumElements() || !std::is_sorted(ends, ends + here + 1)) return -1;
  }
  return rows[0];
}

namespace {

// The values and the splits of each column, and the numbers of candidates.
std::vector<std::pair<int32_t, int32_t>> ArraysOf(const Signature& signature) {
  std::vector<std::pair<int32_t, int32_t>> found;
  for (const Signature::Column& column : signature.columns()) found.emplace_back(column.values, column.splits);
  if (signature.counts() >= 0) found.emplace_back(signature.counts(), -1);
  return found;
}

}  // namespace

Tensors::Tensors(const Signature& signature, const std::vector<const Tensors*>& requests) : Tensors(signature) {
  for (const auto& [values, splits] : ArraysOf(signature)) {
    Shape shape = {0};
    const Shape& row = signature[values].row;
    shape.insert(shape.end(), row.begin(), row.end());
    int64_t rows = 0;
    for (const Tensors* request : requests) {
      shape[0] += request->tensors_[values].dim_size(0);
      if (splits >= 0) rows += request->tensors_[splits].NumElements() - 1;
    }
    void *data, *made = nullptr;
    if (!Make(values, shape, &data) || (splits >= 0 && !Make(splits, {rows + 1}, &made))) throw std::bad_alloc();
    auto* const ends = static_cast<int64_t*>(made);
    if (ends) ends[0] = 0;
    int64_t count = rows = 0;
    for (const Tensors* request : requests) {
      const tensorflow::Tensor& from = request->tensors_[values];
      const int64_t n = from.NumElements();
      if (signature[values].type == Type::kText) {
        std::copy_n(from.flat<tensorflow::tstring>().data(), n, tensors_[values].flat<tensorflow::tstring>().data() + count);
      } else if (n > 0) {
        const int64_t bytes = BytesOf(signature[values].type);
        std::memcpy(static_cast<char*>(data) + count * bytes, from.data(), n * bytes);
      }
      for (int64_t r = 1; ends && r < request->tensors_[splits].NumElements(); ++r) {
        ends[++rows] = count + static_cast<const int64_t*>(request->tensors_[splits].data())[r];
      }
      count += n;
    }
  }
}

}  // namespace ctrlab::processor
