// Checks the stores of a tier: each is new and empty, its files are deleted with it, and the folder is cleaned of leftovers.

#pragma once

#include "check_store_process.h"
#include "store/scratch.h"

namespace ctrlab::check::store {

inline std::vector<std::string> NamesOf(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(folder)) names.push_back(file.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

inline const std::vector<std::string> kSwept = {"LOCK", "TIER"};

// Random operations on one store in use and one that will replace it.
inline void TwoStores(StoreOptions options) {
  fs::remove_all(options.path);
  std::atomic<int> syncs = 0;
  sync_instead = [&](int) { return ++syncs, 0; };
  const OpenStore open = StoresIn(options);
  std::unique_ptr<SegmentStore> stores[2], third;
  Model models[2];
  for (auto& store : stores) Good(open(kRowBytes, &store));
  Refused(StoresIn(options)(kRowBytes, &third), "another one has that in " + options.path);
  const int marking = syncs;
  for (int step = 0; step < 3000; ++step) {
    SegmentStore& store = *stores[step % 2];
    Model& model = models[step % 2];
    std::vector<int64_t> keys;
    std::vector<Row> rows;
    for (int64_t i = 0; i < 30; ++i) keys.push_back(RandomKey()), rows.push_back(RandomRow(rng()));
    if (Below(2)) {
      Good(store.Put(keys.data(), rows.data(), 30));
      for (int64_t i = 0; i < 30; ++i) model[keys[i]] = rows[i];
    } else {
      const int64_t written = store.Stats().user_bytes;
      Good(store.Erase(keys.data(), 30));
      Require(store.Stats().user_bytes == written, "An erase takes no disk where no file is opened again.");
      for (const int64_t key : keys) model.erase(key);
    }
    Good(store.Relieve());
    if (step % 50 == 0) SameByGet(store, model);
    if (step % 500 == 499) {  // the staged one replaces the other
      stores[0] = std::move(stores[1]);
      models[0] = std::exchange(models[1], {});
      Good(open(kRowBytes, &stores[1]));
      Require(Content(*stores[1]).empty(), "Each store is new and empty.");
    }
    const StoreStats stats = stores[0]->Stats();
    Require(stats.total <= 3 * stats.live + 2 * options.segment_bytes / RecordBytes(kRowBytes), "Garbage is bounded.");
  }
  for (int i = 0; i < 2; ++i) {
    Good(stores[i]->Flush());
    Require(Content(*stores[i]) == models[i], "A snapshot holds what is there.");
  }
  Require(stores[0]->Stats().compactions > 0, "Compaction happened.");
  EndsWell(Forked([&] {
    Refused(open(kRowBytes, &third), "was forked from that");
    for (auto& store : stores) store.reset();
  }));
  for (int i = 0; i < 2; ++i) Require(Content(*stores[i]) == models[i], "A child takes no file away.");
  for (auto& store : stores) store.reset();
  Require(syncs == marking, "What goes with the process is not synced.");
  Require(NamesOf(options.path) == kSwept, "Its files go with a store.");
  sync_instead = nullptr;
}

// Leftovers: a store's files are deleted unread, in whatever state; other files stay unchanged.
inline void Leftovers(const StoreOptions& options) {
  const OpenStore open = StoresIn(options);
  std::unique_ptr<SegmentStore> store;
  const auto foreign = [&](const std::string& name) {
    Write(options.path + "/LOCK", "");
    const auto files = NamesOf(options.path);
    const std::string bytes = fs::is_directory(options.path + "/" + name) ? "" : Bytes(options.path + "/" + name);
    Refused(open(kRowBytes, &store), options.path + " holds " + name + " that no embedding variable put there");
    Require(NamesOf(options.path) == files, "Nothing goes where something is somebody else's.");
    Require(bytes.empty() || Bytes(options.path + "/" + name) == bytes, "It stays as it is.");
  };
  fs::remove_all(options.path);
  fs::create_directories(options.path);
  Write(options.path + "/notes.txt", "mine");
  foreign("notes.txt");
  fs::remove_all(options.path);
  StoreOptions somebodys = options;
  somebodys.row_bytes = kRowBytes;
  PutKeys(*Opened(somebodys), 0, 50);
  fs::remove(options.path + "/MANIFEST");
  foreign("0000000001.seg");

  // The same if the mark file exists, as earlier versions wrote it: damaged, of other rows, truncated.
  Write(options.path + "/TIER", "mark");
  Write(options.path + "/0000000002.seg", std::string(5000, 'x'));
  Write(options.path + "/0000000003.seg", "");
  Write(options.path + "/MANIFEST", "damaged");
  Write(options.path + "/MANIFEST.new", "");
  for (const std::string name : {"1", "17"}) {
    fs::create_directories(options.path + "/" + name);
    for (const std::string file : {"LOCK", "MANIFEST", "0000000001.seg"})
      Write(options.path + "/" + name + "/" + file, "damaged");
  }
  for (const std::string name : {"notes.txt", "mine.seg", "17/notes.txt", "4/notes.txt", "03", "5"}) {
    const std::string first = name.substr(0, name.find('/'));
    const bool there = fs::exists(options.path + "/" + first);
    if (first != name) fs::create_directories(options.path + "/" + first);
    Write(options.path + "/" + name, "mine");
    foreign(first);
    fs::remove_all(options.path + "/" + (there ? name : first));
  }
  Good(open(kRowBytes + 4, &store));
  Require(Content(*store).empty(), "A store is new whatever lies there.");
  store.reset();
  Require(NamesOf(options.path) == kSwept, "What was left of ours is gone.");

  // A killed process leaves all its files.
  int status;
  waitpid(Forked([&] {
            Good(open(kRowBytes, &store));
            PutKeys(*store, 0, 500);
            raise(SIGKILL);
          }),
          &status, 0);
  Require(WIFSIGNALED(status) && NamesOf(options.path) == std::vector<std::string>({"1", "LOCK", "TIER"}), "It was killed.");
  Good(open(kRowBytes, &store));
  Require(fs::exists(options.path + "/2"), "A store has a folder that is not one that was left.");
  // Files that others add meanwhile stay, too.
  const std::vector<std::string> notes = {options.path + "/notes.txt", options.path + "/2/notes.txt"};
  for (const std::string& name : notes) Write(name, "mine");
  store.reset();
  for (const std::string& name : notes) Require(Bytes(name) == "mine", "It stays as it is.");
  Require(NamesOf(options.path) == std::vector<std::string>({"2", "LOCK", "TIER", "notes.txt"}), "What is ours is gone.");
  Require(NamesOf(options.path + "/2") == std::vector<std::string>({"notes.txt"}), "What is ours is gone.");
}

// Each allocation fails in turn, while stores of a tier are opened and while leftovers are removed.
inline void ScratchWithoutMemory(const StoreOptions& options) {
  fs::remove_all(options.path);
  in_main = true;
  sync_instead = [](int) { return 0; };
  alarm(60);  // otherwise it could wait forever
  bool refused = true;
  for (int64_t left = 0; refused; ++left) {
    const OpenStore open = StoresIn(options);
    std::unique_ptr<SegmentStore> stores[2];
    allocations_left = left;
    for (auto& store : stores) {
      const Status status = open(kRowBytes, &store);
      if (status.ok()) continue;
      Refused(status, "There is not enough memory for the store");
      Good(open(kRowBytes, &store));
    }
    for (auto& store : stores) store.reset();
    refused = allocations_left.exchange(-1) < 0;
  }
  alarm(0);
  sync_instead = nullptr;
  Require(NamesOf(options.path) == kSwept, "What was left of ours is gone.");
}

inline void CheckScratch(const std::string& folder) {
  for (const Compaction compaction : {Compaction::kSync, Compaction::kAsync}) {
    StoreOptions options = Options(folder);
    options.compaction = compaction;
    options.direct = compaction == Compaction::kAsync;
    TwoStores(options);
    ScratchWithoutMemory(options);
  }
  Leftovers(Options(folder));
}

// Without a call of Relieve, a writer does not wait for compaction, even if that is stuck.
inline void CheckRelieved(const std::string& folder) {
  fs::remove_all(folder);
  StoreOptions options = Options(folder);
  options.compaction = Compaction::kAsync;
  in_main = true;
  std::atomic<bool> stuck = true, reached = false;
  sync_instead = [&](int) {
    while (!in_main && stuck) reached = true, std::this_thread::yield();
    return 0;
  };
  auto store = Opened(options);
  alarm(60);  // otherwise it could wait forever
  Model model;
  const int64_t per_segment = options.segment_bytes / RecordBytes(kRowBytes);
  for (int64_t i = 0; i < 7 * per_segment; ++i) {
    const int64_t key = i % 10;
    model[key] = RowOf(i);
    Good(store->Put(&key, &model[key], 1));
  }
  while (!reached) std::this_thread::yield();
  const int64_t erased = 3;
  Good(store->Erase(&erased, 1));
  model.erase(erased);
  StoreStats stats = store->Stats();
  Require(stats.total > 3 * stats.live + 2 * per_segment && stats.compactions == 0, "There is far too much garbage.");
  stuck = false;
  Good(store->Relieve());
  stats = store->Stats();
  Require(stats.total <= 3 * stats.live + 2 * per_segment, "Relieve leaves no more than is bounded.");
  alarm(0);
  SameByGet(*store, model);
  store.reset();
  sync_instead = nullptr;
}

}  // namespace ctrlab::check::store
