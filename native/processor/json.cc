#include "processor/json.h"

#include <charconv>
#include <iterator>
#include <span>

#include "processor/json_values.h"

namespace ctrlab::processor {

namespace {

bool IsObject(const element& value) { return value.type() == element_type::OBJECT; }

// Bytes that are no UTF-8.
bool IsBytes(const element& value) {
  object fields;
  return value.get(fields) == simdjson::SUCCESS && fields.size() == 1 && (*fields.begin()).key == "b64";
}

// A column of lists by its own name, [[...], ...].
Answer FillLists(const Signature::Column& column, const array& rows, Filler* filler) {
  int64_t row = 0, count = 0;
  for (const element& list : rows) {
    array values;
    if (!(column.missing && list.is_null())) {
      if (list.get(values) != simdjson::SUCCESS) {
        return Invalid("Column ", column.name, " has a list in each row; received ", KindOf(list), " in row ", row, ".");
      }
      count += SizeOf(values);
    }
    ++row;
  }
  if (Answer bad = filler->Make(column.values, count); !bad.ok()) return bad;
  if (Answer bad = filler->Make(column.splits, row + 1); !bad.ok()) return bad;
  filler->SetSplit(column.splits, 0, row = count = 0);
  for (const element& list : rows) {
    array values;
    if (list.get(values) == simdjson::SUCCESS) {
      for (const element& value : values) {
        if (Answer bad = filler->Set(column.values, count++, value, {column.name, row}); !bad.ok()) return bad;
      }
    }
    filler->SetSplit(column.splits, ++row, count);
  }
  return {};
}

// An input, or a column of lists, by its name.
Answer FillColumn(const Signature& signature, std::string_view name, const element& given, Filler* filler) {
  const int32_t i = signature.PlaceOf(name);
  const int32_t c = i < 0 ? signature.ColumnOf(name) : -1;
  if (i < 0 && c < 0) return filler->received().Unknown(name);
  const bool optional = i < 0 ? signature.columns()[c].missing.has_value() : signature.MissingIn(i) != nullptr;
  if (optional && given.is_null()) return {};  // as if it was left out
  array values;
  if (given.get(values) != simdjson::SUCCESS) {
    return Invalid("A column is a list, a value for each row; received ", KindOf(given), " for ", name, ".");
  }
  if (i < 0) return FillLists(signature.columns()[c], values, filler);
  const int64_t rows = SizeOf(values);
  const element first = rows > 0 ? *values.begin() : element();
  if (Answer bad = filler->MakeRows(i, rows, rows > 0 ? &first : nullptr); !bad.ok()) return bad;
  int64_t k = 0, row = 0;
  for (const element& value : values) {
    if (Answer bad = filler->SetRow(i, &k, value, {name, row++}); !bad.ok()) return bad;
  }
  return {};
}

Answer FillColumns(const Signature& signature, const element& inputs, Filler* filler) {
  object columns;
  if (inputs.get(columns) == simdjson::SUCCESS) {
    for (const auto& [name, given] : columns) {
      if (Answer bad = FillColumn(signature, name, given, filler); !bad.ok()) return bad;
    }
  } else if (signature.columns().size() == 1) {
    if (Answer bad = FillColumn(signature, signature.columns()[0].name, inputs, filler); !bad.ok()) return bad;
  } else {
    return Invalid("\"inputs\" is an object of columns, {\"item\": [...], ...}; received ", KindOf(inputs), ".");
  }
  return filler->received().Finish();
}

// Rows are gone over twice: first to count the values of lists, then to fill the arrays.
class RowsOf {
 public:
  RowsOf(const Signature& signature, const array& rows, Filler* filler)
      : signature_(signature), rows_(rows), filler_(filler), counts_(signature.columns().size()), seen_(counts_.size(), -1) {}

  Answer Fill() {
    const std::vector<Signature::Column>& columns = signature_.columns();
    std::vector<element> firsts(columns.size());
    if (Answer bad = ForEach([&](int32_t c, const element* value, int64_t row) {
          if (row == 0 && value) firsts[c] = *value;
          if (!value) return filler_->received().Fill(1);
          if (columns[c].splits < 0 || (columns[c].missing && value->is_null())) return Answer{};
          array values;
          if (value->get(values) != simdjson::SUCCESS) {
            return Invalid("Column ", columns[c].name, " has a list in each row; received ", KindOf(*value), " in row ", row,
                           ".");
          }
          counts_[c] += SizeOf(values);
          return Answer{};
        });
        !bad.ok()) {
      return bad;
    }
    for (size_t c = 0; c < columns.size(); ++c) {
      const auto& [name, values, splits, per_user, missing] = columns[c];
      if (splits < 0) {
        if (Answer bad = filler_->MakeRows(values, row_count_, row_count_ > 0 && !missing ? &firsts[c] : nullptr); !bad.ok())
          return bad;
        continue;
      }
      if (Answer bad = filler_->Make(values, counts_[c]); !bad.ok()) return bad;
      if (Answer bad = filler_->Make(splits, row_count_ + 1); !bad.ok()) return bad;
      filler_->SetSplit(splits, 0, 0);
    }
    counts_.assign(columns.size(), 0);
    Answer filled = ForEach([&](int32_t c, const element* value, int64_t row) {
      const auto& [name, values, splits, per_user, missing] = columns[c];
      if (splits < 0) {
        if (value) return filler_->SetRow(values, &counts_[c], *value, {name, row});
        filler_->received().FillMissing(values, counts_[c]++, *missing);
        return Answer{};
      }
      array list;
      if (value && value->get(list) == simdjson::SUCCESS) {
        for (const element& each : list) {
          if (Answer bad = filler_->Set(values, counts_[c]++, each, {name, row}); !bad.ok()) return bad;
        }
      }
      filler_->SetSplit(splits, row + 1, counts_[c]);
      return Answer{};
    });
    return filled.ok() ? filler_->received().Finish() : filled;
  }

 private:
  // Calls what(column, value, row) for each value, and with null for one that a row leaves out. A row has no column twice.
  template <class What>
  Answer ForEach(const What& what) {
    const std::vector<Signature::Column>& columns = signature_.columns();
    const auto count = static_cast<int32_t>(columns.size());
    seen_.assign(count, -1);
    int64_t row = 0;
    for (const element& given : rows_) {
      if (count == 1 && (!IsObject(given) || (IsBytes(given) && signature_.ColumnOf("b64") < 0))) {
        if (Answer bad = what(0, &given, row++); !bad.ok()) return bad;
        continue;
      }
      object fields;
      if (given.get(fields) != simdjson::SUCCESS) {
        return Invalid("An instance is an object, {\"item\": ..., ...}; received ", KindOf(given), " in row ", row, ".");
      }
      int32_t next = 0, there = 0;
      for (const auto& [name, value] : fields) {
        // Rows mostly have their columns in one order; then no name is looked up.
        if (row == 0 || next >= std::ssize(order_) || order_[next].name != name) {
          const int32_t c = signature_.ColumnOf(name);
          if (c < 0) {
            if (Answer bad = filler_->received().Unknown(name); !bad.ok()) return bad;
          }
          order_.resize(std::max<size_t>(order_.size(), next + 1));
          order_[next] = {name, c};
        }
        const int32_t c = order_[next++].column;
        if (c < 0) continue;
        if (seen_[c] == row)
          return Invalid("A row has each column once; row ", row, " has ", Shown(name), " twice: leave one out.");
        seen_[c] = row;
        ++there;
        if (Answer bad = what(c, &value, row); !bad.ok()) return bad;
      }
      for (int32_t c = 0; there < count && c < count; ++c) {
        if (seen_[c] == row) continue;
        if (!columns[c].missing) {
          return Invalid("A row has every column without a default; row ", row, " lacks ", columns[c].name, ".");
        }
        if (Answer bad = what(c, nullptr, row); !bad.ok()) return bad;
      }
      ++row;
    }
    row_count_ = row;
    return {};
  }

  const Signature& signature_;
  const array& rows_;
  Filler* const filler_;
  std::vector<int64_t> counts_, seen_;
  struct Field {
    std::string_view name;
    int32_t column;  // -1 if it is none of the model's
  };
  std::vector<Field> order_;
  int64_t row_count_ = 0;
};

Answer Read(const object& fields, const Signature& signature, Addressee* addressee, Arrays* arrays, size_t bytes, bool* rows) {
  Filler filler(signature, arrays, bytes);
  element inputs, instances;
  const bool by_columns = fields["inputs"].get(inputs) == simdjson::SUCCESS;
  *rows = fields["instances"].get(instances) == simdjson::SUCCESS;
  int64_t forms = 0;
  for (const auto& [name, value] : fields) {
    std::string_view text;
    if (name == "inputs" || name == "instances") {
      ++forms;
      continue;
    }
    if (name != "signature_name") {
      return Invalid("A request has inputs or instances, and signature_name; ", Shown(name), " is unknown.");
    }
    if (value.get(text) != simdjson::SUCCESS) return Invalid("\"signature_name\" is text; received ", KindOf(value), ".");
    addressee->signature = text;
  }
  if (forms != 1) {
    return Invalid("A request has either \"inputs\", by columns, or \"instances\", by rows, once; received ",
                   forms == 0            ? "none."
                   : by_columns && *rows ? "both."
                                         : "one twice.");
  }
  if (by_columns) return FillColumns(signature, inputs, &filler);
  array list;
  if (instances.get(list) != simdjson::SUCCESS) {
    return Invalid("\"instances\" is a list of rows; received ", KindOf(instances), ".");
  }
  return RowsOf(signature, list, &filler).Fill();
}

}  // namespace

Answer ParseJsonRequest(std::string_view json, const Signature& signature, Addressee* addressee, Arrays* arrays, bool* rows) {
  return ReadObject(json, "{\"inputs\": ...} or {\"instances\": ...}",
                    [&](const object& fields) { return Read(fields, signature, addressee, arrays, json.size(), rows); });
}

namespace {

// The values of the first `sizes` rows, or parts of a row, from value *k on, as nested lists.
void AppendLists(const Output& output, std::span<const int64_t> sizes, int64_t* k, std::string* json) {
  if (sizes.empty()) return AppendValue(output, (*k)++, json);
  *json += '[';
  for (int64_t n = 0; n < sizes[0]; ++n) {
    if (n) *json += ", ";
    AppendLists(output, sizes.subspan(1), k, json);
  }
  *json += ']';
}

template <class Number>
void AppendText(Number value, std::string* out) {
  char text[64];
  out->append(text, std::to_chars(text, std::end(text), value).ptr);
}

}  // namespace

std::string WriteJsonResponse(const std::vector<Output>& outputs, bool rows) {
  std::string json = rows ? "{\"predictions\": " : "{\"outputs\": ";
  size_t values = 0;
  for (const Output& output : outputs) values += output.rows() * output.width();
  json.reserve(json.size() + 16 * values + 4);
  if (outputs.size() == 1) {
    int64_t k = 0;
    AppendLists(outputs[0], outputs[0].shape, &k, &json);
    return json += '}';
  }
  const auto append_all = [&](std::vector<int64_t>* next, size_t from) {
    json += '{';
    for (size_t o = 0; o < outputs.size(); ++o) {
      (json += (o ? ", " : "") + Quoted(outputs[o].name)) += ": ";
      AppendLists(outputs[o], std::span(outputs[o].shape).subspan(from), &(*next)[o], &json);
    }
    json += '}';
  };
  std::vector<int64_t> next(outputs.size());
  if (!rows) {
    append_all(&next, 0);
    return json += '}';
  }
  json += '[';
  for (int64_t row = 0; row < outputs[0].rows(); ++row) {
    if (row) json += ", ";
    append_all(&next, 1);
  }
  return json += "]}";
}

void AppendValue(const Output& output, int64_t k, std::string* out) {
  WithNumber(output.type, [&]<class T>(T) {
    const T value = static_cast<const T*>(output.values)[k];
    if constexpr (std::is_same_v<T, bool>) {
      *out += value ? "true" : "false";
    } else if constexpr (!kIsFloat<T>) {
      AppendText(value, out);
    } else {
      AppendText(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(value), out);
    }
  });
}

std::string Quoted(std::string_view text) {
  const bool utf8 = simdjson::validate_utf8(text);
  std::string quoted = "\"";
  for (const char c : text) {
    constexpr char kHex[] = "0123456789abcdef";
    if (c == '"' || c == '\\') {
      (quoted += '\\') += c;
    } else if (static_cast<unsigned char>(c) < 32) {
      ((quoted += "\\u00") += kHex[c >> 4]) += kHex[c & 15];
    } else if (!utf8 && static_cast<unsigned char>(c) > 127) {
      quoted += "\\ufffd";
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string WriteJsonError(std::string_view sentence) { return "{\"error\": " + Quoted(sentence) + "}"; }

}  // namespace ctrlab::processor
