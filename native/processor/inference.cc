#include "processor/inference.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <vector>

#include "processor/json.h"
#include "processor/json_values.h"
#include "processor/received.h"
#include "processor/wire.h"
#include "processor/wire_numbers.h"

namespace ctrlab::processor {

namespace {

// What the head of an input says: which array it is, of which type its values are, and how many. An input of words may have whole
// numbers.
struct Head {
  int32_t place;  // -1 if it is ignored
  Type type;
  int64_t count;
};

Answer ReadHead(const Signature& signature, const Received& received, std::string_view name, std::string_view datatype,
                const Shape& shape, Head* head) {
  *head = {signature.PlaceOf(name), Type::kText, CountOf(shape)};
  if (head->place < 0) return received.Unknown(name);
  const Signature::Input& input = signature[head->place];
  head->type = input.words ? NumberType(&TypeFacts::datatype, datatype, input.type) : input.type;
  if (datatype != FactsOf(head->type).datatype) {
    return Invalid("Input ", input.name, " is of datatype ", FactsOf(input.type).datatype, "; received ", Shown(datatype), ".");
  }
  if (head->count >= 0) return {};
  return Invalid("Input ", input.name, " has a shape of sizes from 0 to 2^31; received ", ShownShape(shape), ".");
}

Answer WrongLength(const Signature::Input& input, int64_t n, std::string_view received) {
  return Invalid("An input has as many values as its shape says; ", input.name, " says ", n, " and has ", received, ".");
}

// Values as bytes: numbers as they lie in memory; of each text its length as u32, and its bytes.
Answer FillRaw(const Signature& signature, const Head& head, const Shape& shape, std::string_view raw, Received* received) {
  const auto [i, type, n] = head;
  const Signature::Input& input = signature[i];
  void* data;
  if (type != Type::kText) {
    const int64_t bytes = BytesOf(type);
    if (n > static_cast<int64_t>(raw.size()) || n * bytes != static_cast<int64_t>(raw.size())) {
      return WrongLength(input, n, std::to_string(raw.size()) + " bytes");
    }
    if (Answer bad = received->Make(i, shape, &data); !bad.ok()) return bad;
    if (input.type != type) {
      return WithNumber(type, [&, place = i, count = n]<class T>(T) {
        const std::unique_ptr<T[]> numbers(new T[count]);
        if (count > 0) std::memcpy(numbers.get(), raw.data(), raw.size());
        return received->SetWords(place, numbers.get(), count);
      });
    }
    if (n > 0) std::memcpy(data, raw.data(), raw.size());
    return {};
  }
  if (n > static_cast<int64_t>(raw.size()) / 4) return WrongLength(input, n, std::to_string(raw.size()) + " bytes");
  if (Answer bad = received->Make(i, shape, &data); !bad.ok()) return bad;
  for (int64_t k = 0; k < n; ++k) {
    uint32_t length;
    if (raw.size() < 4) return WrongLength(input, n, "fewer");
    std::memcpy(&length, raw.data(), 4);
    raw.remove_prefix(4);
    if (length > raw.size()) return WrongLength(input, n, "fewer: one is longer than what is left");
    received->SetText(i, k, raw.substr(0, length));
    raw.remove_prefix(length);
  }
  return raw.empty() ? Answer{} : WrongLength(input, n, "more");
}

Answer AddOutput(std::string_view asked, const std::vector<std::string>& outputs, InferRequest* request) {
  if (std::find(outputs.begin(), outputs.end(), asked) == outputs.end()) {
    return Refusal(Code::kNotFound, "The model has the output ", Joined(outputs), "; a request asks for ", Shown(asked), ".");
  }
  if (std::find(request->outputs.begin(), request->outputs.end(), asked) == request->outputs.end()) {
    request->outputs.emplace_back(asked);
  }
  return {};
}

// "" and "7" -> none and 7.
Answer ReadVersion(std::string_view text, std::optional<int64_t>* version) {
  if (text.empty()) return {};
  int64_t number;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) {
    return Refusal(Code::kNotFound, "A model's version is a number; received ", Shown(text), ".");
  }
  *version = number;
  return {};
}

Answer Malformed() { return Invalid("A ModelInferRequest is a protocol buffer; this is cut off or malformed: encode it again."); }

// One input of a ModelInferRequest.
struct WireInput {
  std::string_view name, datatype, contents;
  Shape shape;
  bool has_contents = false;

  bool Read(std::string_view message) {
    WireReader fields(message);
    while (fields.Next()) {
      if (fields.field() == 1 && fields.is_bytes()) name = fields.bytes();
      if (fields.field() == 2 && fields.is_bytes()) datatype = fields.bytes();
      if (fields.field() == 3 && fields.is_number()) shape.push_back(fields.number());
      if (fields.field() == 3 && fields.is_bytes()) {
        WireReader packed(fields.bytes());
        while (packed.More()) shape.push_back(static_cast<int64_t>(packed.Varint()));
        if (!packed.ok()) return false;
      }
      if (fields.field() == 5 && fields.is_bytes()) {
        contents = fields.bytes();
        has_contents = true;
      }
    }
    return fields.ok();
  }
};

// The typed values of an input, an InferTensorContents.
Answer FillTyped(const Signature& signature, const Head& head, const Shape& shape, std::string_view contents,
                 Received* received) {
  const auto [i, type, n] = head;
  const Signature::Input& input = signature[i];
  const uint32_t wanted = FactsOf(type).contents;
  if (wanted == 0) return Invalid("Values of ", FactsOf(type).datatype, " are raw contents; ", input.name, " has others.");
  if (n > static_cast<int64_t>(contents.size())) return WrongLength(input, n, "fewer");  // a value has a byte at least
  void* data;
  if (Answer bad = received->Make(i, shape, &data); !bad.ok()) return bad;
  int64_t count = 0;
  if (type == Type::kText) {
    WireReader fields(contents);
    while (fields.Next()) {
      if (fields.field() != wanted) continue;
      if (!fields.is_bytes()) return Malformed();
      if (count < n) received->SetText(i, count, fields.bytes());
      ++count;
    }
    if (!fields.ok()) return Malformed();
    return count == n ? Answer{} : WrongLength(input, n, std::to_string(count));
  }
  return WithNumber(type, [&, place = i, type = type, n = n]<class T>(T) -> Answer {
    const std::unique_ptr<T[]> held(input.type == type ? nullptr : new T[n]);
    T* const values = held ? held.get() : static_cast<T*>(data);
    const Numbers read = ForEachNumber<T>(contents, wanted, [&](T value) {
      if (count < n) values[count] = value;
      ++count;
    });
    if (read == Numbers::kMalformed) return Malformed();
    if (read == Numbers::kTooLarge) {
      return Invalid("A value of ", input.name, " must be ", FactsOf(type).wanted, "; received a number that is none.");
    }
    if (count != n) return WrongLength(input, n, std::to_string(count));
    return held ? received->SetWords(place, values, n) : Answer{};
  });
}

}  // namespace

Answer ParseInferRequest(std::string_view bytes, const Signature& signature, const std::vector<std::string>& outputs,
                         InferRequest* request, Arrays* arrays) {
  Received received(signature, arrays, bytes.size());
  std::vector<WireInput> inputs;
  std::vector<std::string_view> raw;
  std::string_view version;
  WireReader fields(bytes);
  while (fields.Next()) {
    if (!fields.is_bytes()) continue;
    switch (fields.field()) {
      case 1:
        request->addressee.model = fields.bytes();
        break;
      case 2:
        version = fields.bytes();
        break;
      case 3:
        request->id = fields.bytes();
        break;
      case 5:
        if (!inputs.emplace_back().Read(fields.bytes())) return Malformed();
        break;
      case 6: {
        WireInput asked;
        if (!asked.Read(fields.bytes())) return Malformed();
        if (Answer bad = AddOutput(asked.name, outputs, request); !bad.ok()) return bad;
        break;
      }
      case 7:
        raw.push_back(fields.bytes());
        break;
    }
  }
  if (!fields.ok()) return Malformed();
  if (!simdjson::validate_utf8(request->id))
    return Invalid("A request's id comes back with its answer, and is UTF-8; this is not.");
  if (Answer bad = ReadVersion(version, &request->addressee.version); !bad.ok()) return bad;
  if (!raw.empty() && raw.size() != inputs.size()) {
    return Invalid("A ModelInferRequest has raw contents for each of its ", inputs.size(), " inputs, or for none; received ",
                   raw.size(), ".");
  }
  for (size_t k = 0; k < inputs.size(); ++k) {
    Head head;
    const WireInput& input = inputs[k];
    if (Answer bad = ReadHead(signature, received, input.name, input.datatype, input.shape, &head); !bad.ok()) return bad;
    if (!raw.empty() && input.has_contents) {
      return Invalid("Where one input has raw contents, none has others; ", Shown(input.name), " has both.");
    }
    if (head.place < 0) continue;
    Answer filled = raw.empty() ? FillTyped(signature, head, input.shape, input.contents, &received)
                                : FillRaw(signature, head, input.shape, raw[k], &received);
    if (!filled.ok()) return filled;
  }
  return received.Finish();
}

namespace {

Answer Odd(std::string_view what, std::string_view wanted, const element& value) {
  return Invalid("An inference request's ", what, " is ", wanted, "; received ", KindOf(value), ".");
}

// Reads a request in JSON, and the tensors behind it.
class InferJson {
 public:
  InferJson(std::string_view tail, const Signature& signature, const std::vector<std::string>& outputs, size_t bytes,
            InferRequest* request, Arrays* arrays)
      : tail_(tail), signature_(signature), outputs_(outputs), request_(request), filler_(signature, arrays, bytes) {}

  Answer Read(const object& fields) {
    for (const auto& [name, value] : fields) {
      std::string_view text;
      array list;
      if (name == "id") {
        if (value.get(text) != simdjson::SUCCESS) return Odd("id", "text", value);
        request_->id = text;
      } else if (name == "parameters") {
        bool wanted;
        if (value["binary_data_output"].get(wanted) == simdjson::SUCCESS) request_->binary |= wanted;
      } else if (name == "outputs") {
        if (value.get(list) != simdjson::SUCCESS) return Odd("outputs", "a list", value);
        for (const element& each : list) {
          if (Answer bad = ReadOutput(each); !bad.ok()) return bad;
        }
      } else if (name == "inputs") {
        if (value.get(list) != simdjson::SUCCESS) return Odd("inputs", "a list of objects", value);
        for (const element& each : list) {
          if (Answer bad = ReadInput(each); !bad.ok()) return bad;
        }
      } else {
        return Invalid("An inference request has id, parameters, inputs and outputs; ", Shown(name), " is unknown.");
      }
    }
    if (!tail_.empty()) return Invalid("Bytes behind the JSON belong to inputs; ", tail_.size(), " belong to none.");
    return filler_.received().Finish();
  }

 private:
  Answer ReadOutput(const element& given) {
    std::string_view name;
    bool wanted;
    if (given["name"].get(name) != simdjson::SUCCESS) return Odd("output", "an object with a name", given);
    if (given["parameters"]["binary_data"].get(wanted) == simdjson::SUCCESS) request_->binary_of[std::string(name)] = wanted;
    return AddOutput(name, outputs_, request_);
  }

  Answer ReadInput(const element& given) {
    std::string_view name, datatype;
    array dims;
    if (given["name"].get(name) != simdjson::SUCCESS || given["datatype"].get(datatype) != simdjson::SUCCESS ||
        given["shape"].get(dims) != simdjson::SUCCESS) {
      return Odd("input", "an object with name, datatype and shape", given);
    }
    Shape shape;
    for (const element& dim : dims) {
      int64_t size;
      if (dim.get(size) != simdjson::SUCCESS) return Odd("shape", "a list of whole numbers", dim);
      shape.push_back(size);
    }
    Head head;
    int64_t bytes;
    if (Answer bad = ReadHead(signature_, filler_.received(), name, datatype, shape, &head); !bad.ok()) return bad;
    if (element size; given["parameters"]["binary_data_size"].get(size) == simdjson::SUCCESS) {
      if (size.get(bytes) != simdjson::SUCCESS) return Odd("binary_data_size", "a whole number of 64 bits", size);
      if (bytes < 0 || bytes > static_cast<int64_t>(tail_.size())) {
        return Invalid("An input's bytes stand behind the JSON; ", Shown(name), " says that it has ", bytes, ", and ",
                       tail_.size(), " are left.");
      }
      const std::string_view raw = tail_.substr(0, bytes);
      tail_.remove_prefix(bytes);
      return head.place < 0 ? Answer{} : FillRaw(signature_, head, shape, raw, &filler_.received());
    }
    if (head.place < 0) return {};
    const auto [i, type, n] = head;
    array values;
    if (given["data"].get(values) != simdjson::SUCCESS) {
      return Invalid("An input has a list as its data, or binary_data_size; ", name, " has neither.");
    }
    int64_t count = 0, k = 0;
    const auto counts = [&](const element&) { return ++count, Answer{}; };
    if (Answer bad = ForEachValue(values, shape.size(), counts); !bad.ok()) return bad;
    if (count != n) return WrongLength(signature_[i], n, std::to_string(count));
    if (Answer bad = filler_.Make(i, shape); !bad.ok()) return bad;
    return ForEachValue(values, shape.size(), [&, place = i, n = n](const element& value) {
      const int64_t row = k / std::max<int64_t>(n / shape[0], 1);
      return filler_.Set(place, k++, value, {name, row});
    });
  }

  // Calls what(value) until one is refused. Values lie one behind the other, or in lists by the shape.
  template <class What>
  static Answer ForEachValue(const array& values, size_t depth, const What& what) {
    for (const element& value : values) {
      array inner;
      const bool is_list = depth > 1 && value.get(inner) == simdjson::SUCCESS;
      if (Answer bad = is_list ? ForEachValue(inner, depth - 1, what) : what(value); !bad.ok()) return bad;
    }
    return {};
  }

  std::string_view tail_;
  const Signature& signature_;
  const std::vector<std::string>& outputs_;
  InferRequest* const request_;
  Filler filler_;
};

}  // namespace

Answer ParseInferJson(std::string_view bytes, int64_t header, const Signature& signature, const std::vector<std::string>& outputs,
                      InferRequest* request, Arrays* arrays) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (header > size) return Invalid("The JSON of a request is ", header, " bytes of it; received ", size, " in all.");
  const std::string_view json = bytes.substr(0, header < 0 ? size : header);
  return ReadObject(json, "{\"inputs\": [...]}", [&](const object& fields) {
    return InferJson(bytes.substr(json.size()), signature, outputs, bytes.size(), request, arrays).Read(fields);
  });
}

std::string WriteInferResponse(const Addressee& by, const InferRequest& to, const std::vector<Output>& outputs) {
  WireWriter response;
  response.Bytes(1, by.model);
  response.Bytes(2, std::to_string(*by.version));
  response.Bytes(3, to.id);
  for (const Output& output : outputs) {
    WireWriter tensor;
    tensor.Bytes(1, output.name);
    tensor.Bytes(2, FactsOf(output.type).datatype);
    for (const int64_t size : output.shape) tensor.Number(3, size);
    response.Bytes(5, tensor.view());
  }
  for (const Output& output : outputs) response.Bytes(6, output.bytes());
  return response.Take();
}

std::string WriteInferJson(const Addressee& by, const InferRequest& to, const std::vector<Output>& outputs, int64_t* header) {
  std::string json = "{\"model_name\": " + Quoted(by.model) + ", \"model_version\": \"" + std::to_string(*by.version) + "\"";
  if (!to.id.empty()) json += ", \"id\": " + Quoted(to.id);
  json += ", \"outputs\": [";
  std::string tail;
  bool any_binary = false;
  for (size_t o = 0; o < outputs.size(); ++o) {
    const Output& output = outputs[o];
    json += (o ? ", {\"name\": " : "{\"name\": ") + Quoted(output.name) + ", \"datatype\": \"" + FactsOf(output.type).datatype +
            "\", \"shape\": " + Words(output.shape) + ", ";
    const auto said = to.binary_of.find(output.name);
    if (said == to.binary_of.end() ? to.binary : said->second) {
      any_binary = true;
      json += "\"parameters\": {\"binary_data_size\": " + std::to_string(output.bytes().size()) + "}}";
      tail += output.bytes();
      continue;
    }
    json += "\"data\": [";
    for (int64_t k = 0; k < output.rows() * output.width(); ++k) {
      if (k) json += ", ";
      AppendValue(output, k, &json);
    }
    json += "]}";
  }
  json += "]}";
  *header = any_binary ? static_cast<int64_t>(json.size()) : -1;
  return json += tail;
}

}  // namespace ctrlab::processor
