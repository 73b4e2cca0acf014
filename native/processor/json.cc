#include "processor/json.h"

#include <charconv>
#include <cmath>

#include "processor/json_values.h"

namespace ctrlab::processor {

namespace {

// A column of lists by its own name, [[...], ...].
Answer FillLists(const Signature::Column& column, const array& rows, Filler* filler) {
  int64_t row = 0, count = 0;
  for (const element& list : rows) {
    array values;
    if (list.get(values) != simdjson::SUCCESS) {
      return Invalid("Column ", column.name, " has a list in each row; received ", KindOf(list), " in row ", row, ".");
    }
    count += SizeOf(values);
    ++row;
  }
  if (Answer bad = filler->Make(column.values, count); !bad.ok()) return bad;
  if (Answer bad = filler->Make(column.splits, row + 1); !bad.ok()) return bad;
  filler->SetSplit(column.splits, 0, row = count = 0);
  for (const element& list : rows) {
    for (const element& value : array(list)) {
      if (Answer bad = filler->Set(column.values, count++, value, {column.name, row}); !bad.ok()) return bad;
    }
    filler->SetSplit(column.splits, ++row, count);
  }
  return {};
}

Answer FillColumns(const Signature& signature, const element& inputs, Filler* filler) {
  object columns;
  if (inputs.get(columns) != simdjson::SUCCESS) {
    return Invalid("\"inputs\" is an object of columns, {\"item\": [...], ...}; received ", KindOf(inputs), ".");
  }
  for (const auto& [name, given] : columns) {
    const int32_t i = signature.PlaceOf(name);
    const int32_t c = i < 0 ? signature.ColumnOf(name) : -1;
    if (i < 0 && c < 0) return filler->received().Unknown(name);
    array values;
    if (given.get(values) != simdjson::SUCCESS) {
      return Invalid("A column is a list, a value for each row; received ", KindOf(given), " for ", name, ".");
    }
    if (i < 0) {
      if (Answer bad = FillLists(signature.columns()[c], values, filler); !bad.ok()) return bad;
      continue;
    }
    if (Answer bad = filler->Make(i, SizeOf(values)); !bad.ok()) return bad;
    int64_t k = 0;
    for (const element& value : values) {
      if (Answer bad = filler->Set(i, k, value, {name, k}); !bad.ok()) return bad;
      ++k;
    }
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
    if (Answer bad = ForEach([&](int32_t c, const element& value, int64_t row) {
          if (columns[c].splits < 0) return Answer{};
          array values;
          if (value.get(values) != simdjson::SUCCESS) {
            return Invalid("Column ", columns[c].name, " has a list in each row; received ", KindOf(value), " in row ", row, ".");
          }
          counts_[c] += SizeOf(values);
          return Answer{};
        });
        !bad.ok()) {
      return bad;
    }
    for (size_t c = 0; c < columns.size(); ++c) {
      const auto& [name, values, splits, per_user] = columns[c];
      if (Answer bad = filler_->Make(values, splits < 0 ? row_count_ : counts_[c]); !bad.ok()) return bad;
      if (splits < 0) continue;
      if (Answer bad = filler_->Make(splits, row_count_ + 1); !bad.ok()) return bad;
      filler_->SetSplit(splits, 0, 0);
    }
    counts_.assign(columns.size(), 0);
    Answer filled = ForEach([&](int32_t c, const element& value, int64_t row) {
      const auto& [name, values, splits, per_user] = columns[c];
      if (splits < 0) return filler_->Set(values, row, value, {name, row});
      for (const element& each : array(value)) {
        if (Answer bad = filler_->Set(values, counts_[c]++, each, {name, row}); !bad.ok()) return bad;
      }
      filler_->SetSplit(splits, row + 1, counts_[c]);
      return Answer{};
    });
    return filled.ok() ? filler_->received().Finish() : filled;
  }

 private:
  // Calls what(column, value, row) for each value. Every row must have every column once.
  template <class What>
  Answer ForEach(const What& what) {
    const std::vector<Signature::Column>& columns = signature_.columns();
    const auto count = static_cast<int32_t>(columns.size());
    seen_.assign(count, -1);
    int64_t row = 0;
    for (const element& given : rows_) {
      object fields;
      if (given.get(fields) != simdjson::SUCCESS) {
        return Invalid("An instance is an object, {\"item\": ..., ...}; received ", KindOf(given), " in row ", row, ".");
      }
      int32_t next = 0, there = 0;
      for (const auto& [name, value] : fields) {
        // Rows mostly have their columns in one order; then no name is looked up.
        if (row == 0 || next >= std::ssize(order_) || columns[order_[next]].name != name) {
          const int32_t c = signature_.ColumnOf(name);
          if (c < 0) return filler_->received().Unknown(name);
          order_.resize(std::max<size_t>(order_.size(), next + 1));
          order_[next] = c;
        }
        const int32_t c = order_[next++];
        if (seen_[c] == row)
          return Invalid("A row has each column once; row ", row, " has ", Shown(name), " twice: leave one out.");
        seen_[c] = row;
        ++there;
        if (Answer bad = what(c, value, row); !bad.ok()) return bad;
      }
      for (int32_t c = 0; there < count && c < count; ++c) {
        if (seen_[c] != row) return Invalid("A row has every column of the model; row ", row, " lacks ", columns[c].name, ".");
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
  std::vector<int32_t> order_;
  int64_t row_count_ = 0;
};

Answer Read(const object& fields, const Signature& signature, Addressee* addressee, Arrays* arrays, bool* rows) {
  Filler filler(signature, arrays);
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
                    [&](const object& fields) { return Read(fields, signature, addressee, arrays, rows); });
}

std::string WriteJsonResponse(const Output& output, bool rows) {
  std::string json = rows ? "{\"predictions\": [" : "{\"outputs\": [";
  json.reserve(json.size() + 16 * output.rows * output.columns + 4);
  for (int64_t row = 0; row < output.rows; ++row) {
    json += row ? ", [" : "[";
    for (int64_t column = 0; column < output.columns; ++column) {
      if (column) json += ", ";
      AppendNumber(output.values[row * output.columns + column], &json);
    }
    json += ']';
  }
  return json + "]}";
}

void AppendNumber(float value, std::string* out) {
  char text[32];
  const auto end = std::isfinite(value) ? std::to_chars(text, std::end(text), value).ptr : text;
  *out += end == text ? std::string_view("null") : std::string_view(text, end - text);
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
