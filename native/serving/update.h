// An update of a bundle's weights to those of a later step: the rows that changed, and all dense tensors.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serving/bundle.h"
#include "serving/weights_file.h"

namespace ctrlab::serving {

class Update {
 public:
  // Reads a file and does everything that can fail. Calls of the model may run; the bundle's growing tables take no other change
  // until this object is destroyed.
  static Status Prepare(const Bundle& bundle, const std::string& path, std::unique_ptr<Update>* update);

  const Moment& moment() const { return moment_; }
  // Changes the weights, in memory, and can't fail. No call of the model may run.
  void Commit();

 private:
  struct Changed {
    std::vector<int64_t> keys, frequencies, removed;
    std::vector<float> values;
    std::vector<int64_t> never;  // zeros: frequencies and last steps, if the file has none
  };

  explicit Update(const Bundle& bundle) : bundle_(bundle), changed_(bundle.shape().tables.size()) {}

  Status Read(WeightsFile* file);
  Status Add(const Record& record, DenseIn* dense);
  Status PrepareTables();

  const Bundle& bundle_;
  Moment moment_;
  std::vector<Changed> changed_;                                     // per table
  std::vector<std::unique_ptr<embedding::Table::Prepared>> tables_;  // of tables under any keys
  std::unique_ptr<Dense> dense_;
};

}  // namespace ctrlab::serving
