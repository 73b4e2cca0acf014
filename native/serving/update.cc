#include "serving/update.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "table/messages.h"

namespace ctrlab::serving {

using embedding::Problem;

Status Update::Prepare(const Bundle& bundle, const std::string& path, std::unique_ptr<Update>* update) try {
  std::unique_ptr<WeightsFile> file;
  if (Status bad = WeightsFile::Open(path, &file); !bad.ok()) return bad;
  if (file->bundle() != bundle.export_name()) {
    return Problem("An update is of the version that it changes; ", path, " is of another export: publish a full version.");
  }
  std::unique_ptr<Update> made(new Update(bundle));
  made->moment_ = file->moment();
  if (Status bad = made->Read(file.get()); !bad.ok()) return Problem(path, ": ", bad.problem());
  if (Status bad = made->PrepareTables(); !bad.ok()) return Problem(path, ": ", bad.problem());
  *update = std::move(made);
  return Status();
} catch (const std::bad_alloc&) {
  return embedding::OutOfMemory();
}

Status Update::Read(WeightsFile* file) {
  dense_ = std::make_unique<Dense>(bundle_.shape().dense_bytes);
  DenseIn dense(bundle_.shape().dense_bytes, dense_.get());
  Record record;
  for (bool more;;) {
    if (Status bad = file->Next(&record, &more); !bad.ok()) return bad;
    if (!more) break;
    if (Status bad = Add(record, &dense); !bad.ok()) return bad;
  }
  return dense.whole() ? Status() : Problem("an update holds every dense tensor whole: publish a full version.");
}

Status Update::Add(const Record& record, DenseIn* dense) {
  if (record.kind == RecordKind::kDense) return dense->Add(record);
  const std::vector<TableShape>& tables = bundle_.shape().tables;
  if (record.index < 0 || record.index >= std::ssize(tables)) return Misfit(record, "the model");
  const TableShape& table = tables[record.index];
  Changed& changed = changed_[record.index];
  if (record.kind == RecordKind::kRemoved && table.rows < 0) {
    if (record.bytes % 8 != 0 || record.count != record.bytes / 8) return Misfit(record, table.name);
    const auto* const keys = reinterpret_cast<const int64_t*>(record.arrays);
    changed.removed.insert(changed.removed.end(), keys, keys + record.count);
    return Status();
  }
  RowArrays rows;
  if (record.kind != RecordKind::kRows || !rows.Find(record, table)) return Misfit(record, table.name);
  const auto within = [&](int64_t id) { return id >= 0 && id < table.rows; };
  if (table.rows >= 0 && !std::all_of(rows.keys, rows.keys + record.count, within)) return Misfit(record, table.name);
  if (Status bad = CheckRows(table, rows.values, record.count); !bad.ok()) return bad;
  changed.keys.insert(changed.keys.end(), rows.keys, rows.keys + record.count);
  changed.values.insert(changed.values.end(), rows.values, rows.values + record.count * table.words());
  if (rows.frequencies) {
    changed.frequencies.insert(changed.frequencies.end(), rows.frequencies, rows.frequencies + record.count);
  }
  return Status();
}

Status Update::PrepareTables() {
  for (size_t t = 0; t < changed_.size(); ++t) {
    Changed& changed = changed_[t];
    const auto count = std::ssize(changed.keys), removed = std::ssize(changed.removed);
    if (bundle_.shape().tables[t].rows >= 0 || count + removed == 0) continue;
    changed.never.resize(count);
    embedding::StateIn in;
    in.keys = changed.keys.data();
    in.values = changed.values.data();
    in.steps = changed.never.data();
    in.frequencies = changed.frequencies.empty() ? changed.never.data() : changed.frequencies.data();
    in.removed = changed.removed.data();
    Status bad = bundle_.table(t).growing->table().Prepare(embedding::ImportKind::kChanges, {0, 1}, {count, 0, 0, removed}, 0, in,
                                                           kAlone, &tables_.emplace_back());
    if (!bad.ok()) return bad;
  }
  return Status();
}

void Update::Commit() {
  for (const auto& table : tables_) table->Commit();
  const BundleShape& shape = bundle_.shape();
  for (size_t t = 0; t < changed_.size(); ++t) {
    const int64_t rows = shape.tables[t].rows, words = shape.tables[t].words();
    const Changed& changed = changed_[t];
    for (int64_t k = 0; rows >= 0 && k < std::ssize(changed.keys); ++k) {
      float* const row = bundle_.table(t).fixed->data<float>() + changed.keys[k] * words;
      std::copy_n(changed.values.data() + k * words, words, row);
    }
  }
  for (size_t d = 0; d < shape.dense_bytes.size(); ++d) {
    std::memcpy(bundle_.dense()->at(d), dense_->at(d), shape.dense_bytes[d]);
  }
}

}  // namespace ctrlab::serving
