#include "processor/predict.h"

#include <algorithm>

#include "processor/wire.h"

namespace ctrlab::processor {

namespace {

constexpr int64_t kMostValues = int64_t{1} << 31, kMostRepeated = 1 << 16;

// Numbers of the fields of TensorProto, and of its types.
enum { kDtype = 1, kShape = 2, kContent = 4, kFloats = 5, kInts = 7, kTexts = 8, kInt64s = 10 };

int64_t WireTypeOf(Type type) {
  constexpr int64_t kTypes[] = {7, 3, 9, 1};
  return kTypes[static_cast<int32_t>(type)];
}

Answer Malformed(std::string_view what) {
  return Invalid("A PredictRequest is a protocol buffer; its ", what, " is cut off or malformed: encode it again.");
}

// The number of values that a TensorShapeProto says, or -1 if it is not of one dimension, or says that it doesn't know.
int64_t LengthOf(std::string_view shape) {
  int64_t length = -1, dimensions = 0;
  WireReader dims(shape);
  while (dims.Next()) {
    if (dims.field() == 3 && dims.is_number() && dims.number() != 0) return -1;
    if (dims.field() != 2 || !dims.is_bytes()) continue;
    length = 0;
    ++dimensions;
    WireReader dim(dims.bytes());
    while (dim.Next()) {
      if (dim.field() == 1 && dim.is_number()) length = dim.number();
    }
    if (!dim.ok()) return -1;
  }
  return dims.ok() && dimensions == 1 && length >= 0 && length < kMostValues ? length : -1;
}

struct TensorFields {
  int64_t dtype = 0, length = -1;
  bool has_shape = false;
  std::string_view content;
};

// Writes the values of the fields with this number; returns how many there were, or -1.
template <class Number>
int64_t Numbers(std::string_view tensor, uint32_t wanted, Number* out, int64_t most) {
  int64_t count = 0;
  WireReader fields(tensor);
  const auto put = [&](Number value) {
    if (count < most) out[count] = value;
    ++count;
  };
  while (fields.Next()) {
    if (fields.field() != wanted) continue;
    if (std::is_same_v<Number, float>) {
      if (!fields.is_fixed32() && !fields.is_bytes()) return -1;
      const std::string_view packed = fields.bytes();
      if (packed.size() % 4) return -1;
      for (size_t k = 0; k < packed.size(); k += 4) {
        Number value;
        std::memcpy(&value, packed.data() + k, 4);
        put(value);
      }
    } else if (fields.is_number()) {
      put(static_cast<Number>(fields.number()));
    } else if (fields.is_bytes()) {
      WireReader packed(fields.bytes());
      while (packed.More()) {
        const uint64_t value = packed.Varint();
        if (packed.ok()) put(static_cast<Number>(value));
      }
      if (!packed.ok()) return -1;
    } else {
      return -1;
    }
  }
  return fields.ok() ? count : -1;
}

template <class Number>
Answer FillNumbers(const Signature::Input& input, std::string_view tensor, const TensorFields& fields, uint32_t field,
                   void* data) {
  auto* const out = static_cast<Number*>(data);
  const int64_t n = fields.length;
  if (!fields.content.empty()) {
    if (fields.content.size() != n * sizeof(Number)) {
      return Invalid("The content of a tensor has ", sizeof(Number), " bytes a value; that of ", input.name, " has ",
                     fields.content.size(), " for ", n, " values.");
    }
    std::memcpy(out, fields.content.data(), fields.content.size());
    return {};
  }
  const int64_t count = Numbers(tensor, field, out, n);
  if (count < 0) return Malformed(input.name);
  if (count > n)
    return Invalid("A tensor has at most as many values as its shape; ", input.name, " has ", count, " for ", n, ".");
  std::fill(out + count, out + n, count > 0 ? out[count - 1] : Number(0));
  return {};
}

// A tensor's content of text: the length of each as a varint, and then the bytes of all.
bool FillPackedTexts(std::string_view content, int32_t i, int64_t n, Arrays* arrays) {
  WireReader skipped(content), lengths(content);
  for (int64_t k = 0; k < n; ++k) skipped.Varint();
  if (!skipped.ok()) return false;
  std::string_view texts = skipped.rest();
  for (int64_t k = 0; k < n; ++k) {
    const uint64_t length = lengths.Varint();
    if (length > texts.size()) return false;
    arrays->SetText(i, k, texts.substr(0, length));
    texts.remove_prefix(length);
  }
  return texts.empty();
}

Answer FillTexts(const Signature::Input& input, std::string_view tensor, std::string_view content, int32_t i, int64_t n,
                 Arrays* arrays) {
  if (!content.empty()) {
    if (FillPackedTexts(content, i, n, arrays)) return {};
    return Invalid("The content of a tensor of text has ", n, " lengths, and so many bytes; that of ", input.name, " has not.");
  }
  int64_t count = 0;
  std::string_view last;
  WireReader fields(tensor);
  while (fields.Next()) {
    if (fields.field() != kTexts || !fields.is_bytes()) continue;
    last = fields.bytes();
    if (count < n) arrays->SetText(i, count, last);
    ++count;
  }
  if (count > n)
    return Invalid("A tensor has at most as many values as its shape; ", input.name, " has ", count, " for ", n, ".");
  for (; count < n && !last.empty(); ++count) arrays->SetText(i, count, last);
  return {};
}

Answer ParseTensor(std::string_view tensor, const Signature& signature, int32_t i, Received* received, Arrays* arrays) {
  const Signature::Input& input = signature[i];
  TensorFields found;
  WireReader fields(tensor);
  while (fields.Next()) {
    if (fields.field() == kDtype && fields.is_number()) found.dtype = fields.number();
    if (fields.field() == kContent && fields.is_bytes()) found.content = fields.bytes();
    if (fields.field() == kShape && fields.is_bytes()) {
      found.length = found.has_shape ? -1 : LengthOf(fields.bytes());  // two are one of two dimensions
      found.has_shape = true;
    }
  }
  if (!fields.ok()) return Malformed(input.name);
  if (found.dtype != WireTypeOf(input.type)) {
    return Invalid("Input ", input.name, " is of type ", NameOf(input.type), " (", WireTypeOf(input.type),
                   " in a TensorProto); received type ", found.dtype, ".");
  }
  if (found.length < 0) {
    return Invalid("Input ", input.name, " is an array of one dimension; received ",
                   found.has_shape ? "another shape." : "no shape, which is one of none.");
  }
  // A few bytes may say that they are many values, so a shape is believed only as far as memory is cheap.
  const auto bytes = static_cast<int64_t>(tensor.size());
  if (found.length > std::max(bytes, kMostRepeated)) {
    return Invalid("A tensor holds its values; ", input.name, " says that it has ", found.length, " in ", bytes, " bytes.");
  }
  void* data;
  if (Answer bad = received->Make(i, found.length, &data); !bad.ok()) return bad;
  switch (input.type) {
    case Type::kText:
      return FillTexts(input, tensor, found.content, i, found.length, arrays);
    case Type::kInt32:
      return FillNumbers<int32_t>(input, tensor, found, kInts, data);
    case Type::kInt64:
      return FillNumbers<int64_t>(input, tensor, found, kInt64s, data);
    case Type::kFloat:
      return FillNumbers<float>(input, tensor, found, kFloats, data);
  }
  return {};
}

Answer ParseSpec(std::string_view spec, Addressee* addressee) {
  WireReader fields(spec);
  while (fields.Next()) {
    if (!fields.is_bytes()) continue;
    if (fields.field() == 1) addressee->model = fields.bytes();
    if (fields.field() == 3) addressee->signature = fields.bytes();
    if (fields.field() == 4) addressee->label = fields.bytes();
    if (fields.field() == 2) {  // Int64Value
      addressee->version = 0;
      WireReader value(fields.bytes());
      while (value.Next()) {
        if (value.field() == 1 && value.is_number()) addressee->version = value.number();
      }
      if (!value.ok()) return Malformed("version");
    }
  }
  return fields.ok() ? Answer{} : Malformed("model_spec");
}

}  // namespace

Answer ParsePredictRequest(std::string_view bytes, const Signature& signature, std::string_view output, Addressee* addressee,
                           Arrays* arrays) {
  Received received(signature, arrays);
  WireReader fields(bytes);
  while (fields.Next()) {
    if (!fields.is_bytes()) continue;
    if (fields.field() == 1) {
      if (Answer bad = ParseSpec(fields.bytes(), addressee); !bad.ok()) return bad;
    } else if (fields.field() == 2) {  // an entry of a map: key, value
      std::string_view name, tensor;
      WireReader entry(fields.bytes());
      while (entry.Next()) {
        if (entry.field() == 1 && entry.is_bytes()) name = entry.bytes();
        if (entry.field() == 2 && entry.is_bytes()) tensor = entry.bytes();
      }
      if (!entry.ok()) return Malformed("inputs");
      const int32_t i = signature.PlaceOf(name);
      if (i < 0) return received.Unknown(name);
      if (Answer bad = ParseTensor(tensor, signature, i, &received, arrays); !bad.ok()) return bad;
    } else if (fields.field() == 3 && fields.bytes() != output) {  // output_filter
      return Invalid("A model has the output ", output, "; a request asks for ", Shown(fields.bytes()), ".");
    }
  }
  if (!fields.ok()) return Malformed("end");
  return received.Finish();
}

std::string WritePredictResponse(const Addressee& by, const Output& output) {
  WireWriter tensor, shape, entry, spec, version, response;
  for (const int64_t size : {output.rows, output.columns}) {
    WireWriter dim;
    dim.Number(1, size);
    shape.Bytes(2, dim.view());
  }
  tensor.Number(kDtype, WireTypeOf(Type::kFloat));
  tensor.Bytes(kShape, shape.view());
  // Packed values, as TensorFlow Serving sends them: not every client reads `tensor_content`.
  tensor.Bytes(kFloats, output.bytes());
  entry.Bytes(1, output.name);
  entry.Bytes(2, tensor.view());
  version.Number(1, *by.version);
  spec.Bytes(1, by.model);
  spec.Bytes(2, version.view());
  spec.Bytes(3, by.signature);
  response.Bytes(1, entry.view());
  response.Bytes(2, spec.view());
  return response.Take();
}

std::string_view RequestInLog(std::string_view log) {
  // PredictionLog: predict_log = 6; PredictLog: request = 1.
  WireReader fields(log);
  while (fields.Next()) {
    if (fields.field() != 6 || !fields.is_bytes()) continue;
    WireReader inner(fields.bytes());
    while (inner.Next()) {
      if (inner.field() == 1 && inner.is_bytes()) return inner.bytes();
    }
  }
  return {};
}

}  // namespace ctrlab::processor
