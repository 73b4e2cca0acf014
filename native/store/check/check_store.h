// The common part of the store's checks: rules, random keys and rows, a model based on std::map.

#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "store/segment_format.h"
#include "store/segment_store.h"
#include "store/store_index.h"

namespace ctrlab::check::store {

using namespace ctrlab::embedding;
namespace fs = std::filesystem;

constexpr int64_t kRowBytes = 20;
using Row = std::array<char, kRowBytes>;
using Model = std::map<int64_t, Row>;
inline std::mt19937_64 rng;

[[noreturn]] inline void Fail(const std::string& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::_Exit(1);
}

inline void Require(bool right, const std::string& rule) {
  if (!right) Fail(rule);
}

inline void Good(const Status& status) {
  if (!status.ok()) Fail("Refused: " + status.problem());
}

// Requires an error whose sentence contains `part`.
inline void Refused(const Status& status, const std::string& part) {
  if (status.ok()) Fail("Not refused: " + part);
  if (status.problem().find(part) == std::string::npos) Fail("\"" + part + "\" is not in: " + status.problem());
  if (status.problem().back() != '.' || status.problem().find('\n') != std::string::npos)
    Fail("No sentence: " + status.problem());
}

inline const ParallelFor kTwoThreads{nullptr,
                                     [](void*, int64_t n, int64_t, void (*body)(void*, int64_t, int64_t), void* context) {
                                       std::thread other([&] {
                                         if (n / 2 > 0) body(context, 0, n / 2);
                                       });
                                       body(context, n / 2, n);
                                       other.join();
                                     }};

inline int64_t Below(int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); }

// Few keys, so that they are often overwritten; including the extremes.
inline int64_t RandomKey() {
  switch (Below(40)) {
    case 0:
      return -1;
    case 1:
      return std::numeric_limits<int64_t>::min();
    case 2:
      return std::numeric_limits<int64_t>::max();
    case 3:
      return -2;
    default:
      return Below(300) * 0x1234567;
  }
}

inline Row RandomRow(uint64_t number) {
  Row row;
  for (char& c : row) c = static_cast<char>(number = number * 6364136223846793005 + 1442695040888963407, number >> 56);
  return row;
}

inline StoreOptions Options(const std::string& folder) {
  StoreOptions options;
  options.path = folder;
  options.row_bytes = kRowBytes;
  options.segment_bytes = 6000;
  options.write_buffer = 4096;
  options.compaction = Compaction::kSync;
  return options;
}

inline std::unique_ptr<SegmentStore> Opened(const StoreOptions& options) {
  std::unique_ptr<SegmentStore> store;
  Good(SegmentStore::Open(options, &store));
  return store;
}

inline Model Content(StoreSnapshot& snapshot) {
  Model content;
  int64_t keys[37], count;
  Row rows[37];
  do {
    Good(snapshot.Next(37, keys, rows, &count));
    for (int64_t i = 0; i < count; ++i) Require(content.emplace(keys[i], rows[i]).second, "A snapshot holds each key once.");
  } while (count > 0);
  Require(std::ssize(content) == snapshot.size(), "A snapshot's size is the number of its rows.");
  return content;
}

// The whole store.
inline Model Content(SegmentStore& store, const std::function<bool(int64_t key)>& wanted = {}) {
  std::unique_ptr<StoreSnapshot> snapshot;
  Good(store.Snapshot(&snapshot, wanted));
  return Content(*snapshot);
}

inline void SameByGet(SegmentStore& store, const Model& model) {
  std::vector<int64_t> keys;
  for (int i = 0; i < 200; ++i) keys.push_back(RandomKey());
  for (const auto& [key, row] : model) keys.push_back(key);
  std::vector<Row> rows(keys.size(), Row{});
  std::vector<uint8_t> found(keys.size());
  Good(store.Get(keys.data(), std::ssize(keys), rows.data(), found.data(), kTwoThreads));
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto expected = model.find(keys[i]);
    Require(found[i] == (expected != model.end()), "Get finds what is there: key " + std::to_string(keys[i]));
    Require(rows[i] == (found[i] ? expected->second : Row{}), "Get gives the last row: key " + std::to_string(keys[i]));
  }
}

}  // namespace ctrlab::check::store
