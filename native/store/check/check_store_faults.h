// Checks the store with faults: damaged files, a full disk, unexpected folders.

#pragma once

#include "check_store_power.h"

namespace ctrlab::check::store {

// Opens a copy of a folder in which one file contains `bytes`. It must be refused with a sentence; or every row that it gives
// must be one that was put, and none may be missing without a warning.
inline void OpenDamaged(const std::string& made, const std::string& name, const std::string& bytes, const Model& model,
                        const std::string& what) {
  const std::string folder = made + "-broken";
  fs::remove_all(folder);
  fs::copy(made, folder);
  Write(folder + "/" + name, bytes);
  std::unique_ptr<SegmentStore> store;
  Status status = SegmentStore::Open(Options(folder), &store);
  if (!status.ok()) return Refused(status, folder);
  bool told = !store->Warnings().empty();
  for (const auto& [key, row] : model) {
    Row got;
    uint8_t found;
    status = store->Get(&key, 1, &got, &found, kAlone);
    if (!status.ok()) Refused(status, name + " at byte"), told = true;
    if (!found && !told) Fail("A row is gone without a word: " + what);
    if (found && got != row) Fail("A row is wrong: " + what);
  }
}

inline void CheckDamage(const std::string& folder) {
  for (const bool sealed : {false, true}) {
    const std::string made = folder + "/made";
    fs::remove_all(made);
    Model model;
    auto store = Opened(Options(made));
    for (int64_t key = 0; key < 12; ++key) {
      const Row row = RandomRow(rng());
      Good(store->Put(&key, &row, 1));
      model[key] = row;
      if (key % 5 == 4) Good(store->Flush());
    }
    Good(store->Flush());
    if (sealed) store.reset();
    for (const std::string name : {"0000000001.seg", "MANIFEST"}) {
      const std::string bytes = Bytes(made + "/" + name);
      Require(!bytes.empty(), name + " is there.");
      OpenDamaged(made, name, bytes, model, "an undamaged file");
      for (size_t i = 0; i < bytes.size(); ++i) {
        std::string wrong = bytes;
        wrong[i] = static_cast<char>(wrong[i] ^ 1 << Below(8));
        OpenDamaged(made, name, wrong, model, "a bit at byte " + std::to_string(i) + " of " + std::to_string(bytes.size()));
      }
      const Model none;  // a truncated unsealed file is like one whose end was never written
      for (size_t cut = 0; cut < bytes.size(); ++cut) {
        OpenDamaged(made, name, bytes.substr(0, cut), sealed || name == "MANIFEST" ? model : none,
                    "cut to " + std::to_string(cut));
      }
    }
  }
}

inline void LimitFiles(rlim_t bytes) {
  rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  Require(setrlimit(RLIMIT_FSIZE, &limit) == 0, "A file's size can be limited.");
}

// A file size limit simulates a full disk: both make writes fail, and both can be lifted.
inline void CheckFull(const std::string& folder) {
  signal(SIGXFSZ, SIG_IGN);
  for (const Compaction compaction : {Compaction::kSync, Compaction::kAsync}) {
    fs::remove_all(folder);
    StoreOptions options = Options(folder);
    options.segment_bytes = 30'000;
    options.compaction = compaction;
    auto store = Opened(options);
    Model model;
    int refused = 0;
    for (int step = 0; step < 4000; ++step) {
      if (step % 100 == 50) LimitFiles(static_cast<rlim_t>(Below(4) * 5000));
      if (step % 100 == 0) LimitFiles(RLIM_INFINITY);
      const int64_t key = RandomKey();
      const Row row = RandomRow(rng());
      const bool put = Below(20) > 0;
      const Status status = put ? store->Put(&key, &row, 1) : store->Flush();
      if (!status.ok()) Refused(status, folder), ++refused;
      Row got;
      uint8_t found;
      Good(store->Get(&key, 1, &got, &found, kTwoThreads));
      const auto before = model.find(key);
      const bool taken = put && found && got == row;  // a refused Put may have stored some rows
      Require(taken || !put || !status.ok(), "Get gives what Put took.");
      Require(taken || (found ? before != model.end() && got == before->second : before == model.end()),
              "A refused Put changes nothing.");
      if (taken) model[key] = row;
    }
    LimitFiles(RLIM_INFINITY);
    // A refused Put does not compact, so few calls meet the full disk.
    Require(refused > 50, "The disk was full now and then: " + std::to_string(refused));
    SameByGet(*store, model);
    Good(store->Flush());
    store.reset();
    store = Opened(options);
    Require(Content(*store) == model, "Nothing is lost on a full disk.");
  }
}

// The content if the process died now.
inline Model Killed(const std::string& folder) {
  const std::string copy = folder + "-copy";
  fs::remove_all(copy);
  fs::copy(folder, copy);
  return Content(*Opened(Options(copy)));
}

// A compaction that failed to write its copies is tried again, although no new copies are needed.
inline void CheckAgain(const std::string& folder) {
  signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t limit : {0, 2000}) {
    fs::remove_all(folder);
    auto store = Opened(Options(folder));
    Model model;
    for (int64_t key = 0; key < 100; ++key) {
      const Row row = RandomRow(rng());
      Good(store->Put(&key, &row, 1));
      model[key] = row;
    }
    for (int64_t key = 0; key < 100; key += 4) {
      Good(store->Erase(&key, 1));
      model.erase(key);
    }
    store.reset();
    store = Opened(Options(folder));
    LimitFiles(limit);
    for (int i = 0; i < 3; ++i) Refused(store->Compact(), folder);
    LimitFiles(RLIM_INFINITY);
    Require(Killed(folder) == model, "What was flushed outlives a compaction that failed.");
    Good(store->Compact());
    Require(Killed(folder) == model, "What was flushed outlives a compaction that was tried again.");
  }
}

inline void CheckOdd(const std::string& folder) {
  fs::remove_all(folder);
  const int64_t key = 7;
  const Row row = RandomRow(1);
  StoreOptions options = Options(folder + "/store");
  auto store = Opened(options);
  Good(store->Put(&key, &row, 1));
  std::unique_ptr<SegmentStore> second;
  Refused(SegmentStore::Open(options, &second), "another one has that in " + options.path);
  store.reset();

  auto with = [&](auto change) {
    StoreOptions changed = options;
    change(&changed);
    return SegmentStore::Open(changed, &second);
  };
  Refused(with([](StoreOptions* o) { o->row_bytes = 24; }), "has rows of 20 bytes, 24 were asked for");
  Refused(with([](StoreOptions* o) { o->row_bytes = 0; }), "row_bytes must be in");
  Refused(with([](StoreOptions* o) { o->segment_bytes = 10; }), "segment_bytes must be in");
  Refused(with([](StoreOptions* o) { o->write_buffer = 0; }), "write_buffer must be in");
  Write(folder + "/file", "");
  Refused(with([&](StoreOptions* o) { o->path = folder + "/file"; }), "Can't make the store's folder");
  Refused(with([&](StoreOptions* o) { o->path = folder + "/file/below"; }), "Can't make the store's folder");

  const std::string first = options.path + "/0000000001.seg", path = options.path + "/0000000002.seg";
  for (const std::string name : {"/2.seg", "/00000000002.seg", "/0000000000.seg", "/0000000002 .seg", "/mine.seg"}) {
    fs::copy(first, options.path + name);
    Refused(SegmentStore::Open(options, &second), options.path + name + " is none of them; move it away");
    fs::remove(options.path + name);
  }
  for (const std::string& bytes : {std::string(5000, 'x'), std::string("mine"), Bytes(first).substr(8)}) {
    Write(path, bytes);
    Refused(SegmentStore::Open(options, &second), path + " is not one");
    Require(Bytes(path) == bytes, "A file that is not ours stays as it is.");
  }
  SegmentHeader newer;
  newer.version = 2, newer.row_bytes = kRowBytes, newer.number = 2, newer.crc = newer.Crc();
  Write(path, std::string(reinterpret_cast<char*>(&newer), sizeof newer));
  Refused(SegmentStore::Open(options, &second), "a newer ctrlab wrote it");
  fs::remove(path);
  fs::copy(first, path);
  Refused(SegmentStore::Open(options, &second), "A segment's name must be its number");
  fs::remove(path);

  const std::string whole = Bytes(first);
  fs::remove(first);
  Refused(SegmentStore::Open(options, &second), first + " is missing; restore it from a copy");
  Write(first, whole);
  std::string zeros = whole;
  zeros.replace(0, sizeof(SegmentHeader), sizeof(SegmentHeader), 0);
  Write(first, zeros);
  Refused(SegmentStore::Open(options, &second), "The header of " + first + " at byte 0 is damaged");
  Write(first, whole);
  Write(path, std::string(5000, 0));  // as if it was being made
  store = Opened(options);
  Require(!fs::exists(path) && store->Warnings().size() == 1, "A segment that was being made is dropped.");
  store.reset();
  fs::remove(options.path + "/MANIFEST");
  store = Opened(options);
  Require(store->Warnings().size() == 1 && store->Warnings()[0].find("has no MANIFEST") != std::string::npos,
          "A store may lack it.");
  store.reset();

  store = Opened(options);
  Require(store->Warnings().empty(), "Nothing to warn of.");
  SameByGet(*store, {{key, row}});
  Good(store->Put(&key, &row, 1));
  fs::remove_all(options.path);
  Good(store->Put(&key, &row, 1));
  Refused(store->Flush(), "no longer in its folder");
  SameByGet(*store, {{key, row}});

  const auto portable = [](const std::string& text) {
    uint32_t crc = ~0u;
    for (const char c : text) crc = crc32c::PortableByte(crc, static_cast<uint8_t>(c));
    return ~crc;
  };
  Require(Crc32c("123456789", 9) == 0xe3069283 && portable("123456789") == 0xe3069283, "CRC-32C of its test string.");
  for (int i = 0; i < 1000; ++i) {
    const uint64_t word = rng();
    const auto crc = static_cast<uint32_t>(rng());
    Require(crc32c::Word(crc, word) == crc32c::PortableWord(crc, word), "CRC-32C of words, by the machine and by tables.");
  }
}

}  // namespace ctrlab::check::store
