#include "processor/predict.h"

#include <algorithm>
#include <memory>

#include "processor/received.h"
#include "processor/wire.h"
#include "processor/wire_numbers.h"

namespace ctrlab::processor {

namespace {

// Numbers of the fields of TensorProto.
enum { kDtype = 1, kShape = 2, kContent = 4 };

Answer Malformed(std::string_view what) {
  return Invalid("A PredictRequest is a protocol buffer; its ", what, " is cut off or malformed: encode it again.");
}

struct TensorFields {
  int64_t dtype = 0, count = -1;
  int shapes = 0;
  bool known = true;
  Shape shape;
  std::string_view content;
};

// Adds the sizes of a TensorShapeProto. False if it is malformed.
bool ReadShape(std::string_view message, TensorFields* found) {
  WireReader dims(message);
  while (dims.Next()) {
    if (dims.field() == 3 && dims.is_number() && dims.number() != 0) found->known = false;
    if (dims.field() != 2 || !dims.is_bytes()) continue;
    found->shape.push_back(0);
    WireReader dim(dims.bytes());
    while (dim.Next()) {
      if (dim.field() == 1 && dim.is_number()) found->shape.back() = dim.number();
    }
    if (!dim.ok()) return false;
  }
  return dims.ok();
}

template <class Number>
Answer FillNumbers(const Signature::Input& input, Type type, std::string_view tensor, const TensorFields& fields, Number* out) {
  const int64_t n = fields.count;
  if (!fields.content.empty()) {
    if (fields.content.size() != n * sizeof(Number)) {
      return Invalid("The content of a tensor has ", sizeof(Number), " bytes a value; that of ", input.name, " has ",
                     fields.content.size(), " for ", n, " values.");
    }
    std::memcpy(out, fields.content.data(), fields.content.size());
    return {};
  }
  int64_t count = 0;
  const Numbers read = ForEachNumber<Number>(tensor, FactsOf(type).values, [&](Number value) {
    if (count < n) out[count] = value;
    ++count;
  });
  if (read == Numbers::kMalformed) return Malformed(input.name);
  if (read == Numbers::kTooLarge) {
    return Invalid("A value of ", input.name, " must be ", FactsOf(type).wanted, "; received a number that is none.");
  }
  if (count > n)
    return Invalid("A tensor has at most as many values as its shape; ", input.name, " has ", count, " for ", n, ".");
  std::fill(out + count, out + n, count > 0 ? out[count - 1] : Number(0));
  return {};
}

// A tensor's content of text: the length of each as a varint, and then the bytes of all.
bool FillPackedTexts(std::string_view content, int32_t i, int64_t n, Received* received) {
  WireReader skipped(content), lengths(content);
  for (int64_t k = 0; k < n; ++k) skipped.Varint();
  if (!skipped.ok()) return false;
  std::string_view texts = skipped.rest();
  for (int64_t k = 0; k < n; ++k) {
    const uint64_t length = lengths.Varint();
    if (length > texts.size()) return false;
    received->SetText(i, k, texts.substr(0, length));
    texts.remove_prefix(length);
  }
  return texts.empty();
}

Answer FillTexts(const Signature::Input& input, std::string_view tensor, std::string_view content, int32_t i, int64_t n,
                 Received* received) {
  if (!content.empty()) {
    if (FillPackedTexts(content, i, n, received)) return {};
    return Invalid("The content of a tensor of text has ", n, " lengths, and so many bytes; that of ", input.name, " has not.");
  }
  int64_t count = 0;
  std::string_view last;
  WireReader fields(tensor);
  while (fields.Next()) {
    if (fields.field() != FactsOf(Type::kText).values || !fields.is_bytes()) continue;
    last = fields.bytes();
    if (count < n) received->SetText(i, count, last);
    ++count;
  }
  if (count > n)
    return Invalid("A tensor has at most as many values as its shape; ", input.name, " has ", count, " for ", n, ".");
  for (; count < n && !last.empty(); ++count) received->SetText(i, count, last);
  return {};
}

Answer ParseTensor(std::string_view tensor, const Signature& signature, int32_t i, Received* received) {
  const Signature::Input& input = signature[i];
  TensorFields found;
  WireReader fields(tensor);
  while (fields.Next()) {
    if (fields.field() == kDtype && fields.is_number()) found.dtype = fields.number();
    if (fields.field() == kContent && fields.is_bytes()) found.content = fields.bytes();
    if (fields.field() == kShape && fields.is_bytes()) {
      if (!ReadShape(fields.bytes(), &found)) return Malformed(input.name);
      ++found.shapes;
    }
  }
  if (!fields.ok()) return Malformed(input.name);
  const Type type = input.words ? NumberType(&TypeFacts::tensorflow, found.dtype, input.type) : input.type;
  if (found.dtype != FactsOf(type).tensorflow) {
    return Invalid("Input ", input.name, " is of type ", NameOf(input.type), " (", FactsOf(input.type).tensorflow,
                   " in a TensorProto); received type ", found.dtype, ".");
  }
  if (found.shapes != 1 || !found.known) {
    return Invalid("Input ", input.name, " is an array of ", input.Dimensions(), "; received ",
                   found.shapes == 0 ? "no shape, which is one of none."
                   : found.known     ? "more than one shape."
                                     : "a shape that is not known.");
  }
  void* data = nullptr;
  found.count = CountOf(found.shape);
  // A few bytes may say that they are many values, so a shape is believed only as far as memory is cheap.
  const auto bytes = static_cast<int64_t>(tensor.size());
  if (found.count > std::max(bytes, kMostRepeated)) {
    return Invalid("A tensor holds its values; ", input.name, " says that it has ", found.count, " in ", bytes, " bytes.");
  }
  if (Answer bad = received->Make(i, found.shape, &data); !bad.ok()) return bad;
  if (type == Type::kText) return FillTexts(input, tensor, found.content, i, found.count, received);
  return WithNumber(type, [&]<class T>(T) -> Answer {
    if (input.type == type) return FillNumbers(input, type, tensor, found, static_cast<T*>(data));
    const std::unique_ptr<T[]> numbers(new T[found.count]);
    if (Answer bad = FillNumbers(input, type, tensor, found, numbers.get()); !bad.ok()) return bad;
    return received->SetWords(i, numbers.get(), found.count);
  });
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

Answer ParsePredictRequest(std::string_view bytes, const Signature& signature, const std::vector<std::string>& outputs,
                           PredictRequest* request, Arrays* arrays) {
  Received received(signature, arrays, bytes.size());
  WireReader fields(bytes);
  while (fields.Next()) {
    if (!fields.is_bytes()) continue;
    if (fields.field() == 1) {
      if (Answer bad = ParseSpec(fields.bytes(), &request->addressee); !bad.ok()) return bad;
    } else if (fields.field() == 2) {  // an entry of a map: key, value
      std::string_view name, tensor;
      WireReader entry(fields.bytes());
      while (entry.Next()) {
        if (entry.field() == 1 && entry.is_bytes()) name = entry.bytes();
        if (entry.field() == 2 && entry.is_bytes()) tensor = entry.bytes();
      }
      if (!entry.ok()) return Malformed("inputs");
      const int32_t i = signature.PlaceOf(name);
      Answer bad = i < 0 ? received.Unknown(name) : ParseTensor(tensor, signature, i, &received);
      if (!bad.ok()) return bad;
    } else if (fields.field() == 3) {  // output_filter
      const std::string name(fields.bytes());
      if (std::find(outputs.begin(), outputs.end(), name) == outputs.end()) {
        return Invalid("The model has the output ", Joined(outputs), "; a request asks for ", Shown(name), ".");
      }
      if (std::find(request->outputs.begin(), request->outputs.end(), name) == request->outputs.end()) {
        request->outputs.push_back(name);
      }
    }
  }
  if (!fields.ok()) return Malformed("end");
  return received.Finish();
}

namespace {

// Values as TensorFlow Serving sends them, packed: not every client reads `tensor_content`.
std::string PackedValues(const Output& output) {
  return WithNumber(output.type, [&]<class T>(T) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::string(output.bytes());
    } else {
      WireWriter packed;
      const auto* const values = static_cast<const T*>(output.values);
      for (int64_t k = 0; k < output.rows() * output.width(); ++k) {
        if constexpr (std::is_same_v<T, Half>) {
          uint16_t bits;
          std::memcpy(&bits, values + k, sizeof bits);
          packed.Varint(bits);
        } else {
          packed.Varint(static_cast<uint64_t>(values[k]));
        }
      }
      return packed.Take();
    }
  });
}

}  // namespace

std::string WritePredictResponse(const Addressee& by, const std::vector<Output>& outputs) {
  WireWriter spec, version, response;
  for (const Output& output : outputs) {
    WireWriter tensor, shape, entry;
    for (const int64_t size : output.shape) {
      WireWriter dim;
      dim.Number(1, size);
      shape.Bytes(2, dim.view());
    }
    tensor.Number(kDtype, FactsOf(output.type).tensorflow);
    tensor.Bytes(kShape, shape.view());
    tensor.Bytes(FactsOf(output.type).values, PackedValues(output));
    entry.Bytes(1, output.name);
    entry.Bytes(2, tensor.view());
    response.Bytes(1, entry.view());
  }
  version.Number(1, *by.version);
  spec.Bytes(1, by.model);
  spec.Bytes(2, version.view());
  spec.Bytes(3, by.signature);
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
