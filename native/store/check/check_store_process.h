// Checks the store when its process forks, and when a thread closes objects that others use.

#pragma once

#include <sys/file.h>

#include "check_store_calls.h"

namespace ctrlab::check::store {

// Runs `child` in a forked process that ends without running destructors; returns its result.
template <class Child>
pid_t Forked(const Child& child) {
  const pid_t process = fork();
  if (process == 0) {
    child();
    std::_Exit(0);
  }
  return process;
}

inline void EndsWell(pid_t process) {
  int status;
  waitpid(process, &status, 0);
  Require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "A forked process ends well.");
}

// Every file of a folder, by name.
inline std::map<std::string, std::string> Files(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& file : fs::directory_iterator(folder)) files[file.path()] = Bytes(file.path());
  return files;
}

inline void CheckFork(const std::string& folder) {
  constexpr char kRefusal[] = "was forked from that and must open a store of its own";
  for (const Compaction compaction : {Compaction::kSync, Compaction::kAsync}) {
    fs::remove_all(folder);
    StoreOptions options = Options(folder);
    options.compaction = compaction;
    auto store = Opened(options);
    Model model = PutKeys(*store, 0, 500);
    std::unique_ptr<StoreSnapshot> snapshot;
    Good(store->Snapshot(&snapshot));
    if (compaction == Compaction::kAsync) Good(store->Compact());  // so that no thread writes while files are compared
    const auto files = Files(folder);

    EndsWell(Forked([&] {
      const int64_t key = 3;
      Row row{};
      uint8_t found;
      int64_t count;
      Refused(store->Put(&key, &row, 1), kRefusal);
      Refused(store->Get(&key, 1, &row, &found, kAlone), kRefusal);
      Refused(store->Find(&key, 1, &found), kRefusal);
      Refused(store->Erase(&key, 1), kRefusal);
      Refused(store->Flush(), kRefusal);
      Refused(store->Compact(), kRefusal);
      Refused(store->Relieve(), kRefusal);
      Refused(snapshot->Next(1, &count, &row, &count), kRefusal);
      std::unique_ptr<StoreSnapshot> other;
      Refused(store->Snapshot(&other), kRefusal);
      Refused(store->SnapshotOf(&key, 1, &found, &other), kRefusal);
      Require(store->Stats().live == 0 && store->Warnings().size() == 1, "A child sees nothing of its parent's store.");
      std::unique_ptr<SegmentStore> again;
      Refused(SegmentStore::Open(options, &again), "another one has that");
      store.reset(), snapshot.reset();
      // The child opens its own store, although its memory contains a copy of the parent's.
      options.path = folder + "-own";
      options.compaction = Compaction::kSync;  // ThreadSanitizer does not follow threads of a child
      fs::remove_all(options.path);
      again = Opened(options);
      const Model its = PutKeys(*again, 0, 50);
      Require(Content(*again) == its, "A child may open a store of its own.");
      again.reset();
    }));
    Require(Files(folder) == files, "A child writes nothing.");

    int wait[2], lives[2];
    Require(pipe(wait) == 0 && pipe(lives) == 0, "Pipes can be made.");
    const pid_t living = Forked([&] {
      close(wait[1]);
      char end;
      (void)!read(wait[0], &end, 1);
    });
    model.merge(PutKeys(*store, 500, 900));
    SameByGet(*store, model);
    store.reset();
    store = Opened(options);  // although a child that was forked while the store was open still lives
    Require(Content(*store) == model, "The parent goes on.");
    store.reset();
    // The same if the parent is killed while its child lives on.
    const pid_t parent = Forked([&] {
      store = Opened(options);
      if (fork() == 0) {
        (void)!write(lives[1], "", 1);
        close(wait[1]);
        char end;
        (void)!read(wait[0], &end, 1);
        std::_Exit(0);
      }
      char it;
      (void)!read(lives[0], &it, 1);
      raise(SIGKILL);
    });
    int status;
    waitpid(parent, &status, 0);
    Require(WIFSIGNALED(status), "The parent was killed.");
    Require(Content(*Opened(options)) == model, "A child keeps no lock.");
    for (const int end : {wait[1], wait[0], lives[0], lives[1]}) close(end);
    EndsWell(living);
  }
}

// Files without names are only used by the parent's snapshot, and are deleted in small pieces.
inline void CheckForkedSnapshot(const std::string& folder) {
  fs::remove_all(folder);
  StoreOptions options = Options(folder);
  options.segment_bytes = 4 * kPiece, options.write_buffer = kPiece;
  auto store = Opened(options);
  const Model model = PutKeys(*store, 0, 30'000);
  const auto files = Files(folder);
  std::unique_ptr<StoreSnapshot> snapshot;
  Good(store->Snapshot(&snapshot));
  PutKeys(*store, 0, 30'000);
  Good(store->Compact());
  for (const auto& [path, bytes] : files) {
    if (path.ends_with(".seg")) Require(!fs::exists(path), "Compaction removes what is only garbage: " + path);
  }
  EndsWell(Forked([&] { snapshot.reset(), store.reset(); }));
  Require(Content(*snapshot) == model, "A child takes nothing of its parent's snapshot.");
}

// Through the C interface, with several threads inside that do not know of each other.
inline void CheckClose(const std::string& folder) {
  constexpr char kClosed[] = "A store that was closed holds nothing; open it again.";
  for (int life = 0; life < 20; ++life) {
    fs::remove_all(folder);
    StoreProblem problem;
    int64_t store = 0, snapshot = 0, size = 0;
    Require(!ctrlab_store_open(folder.c_str(), kRowBytes, 6000, 4096, life % 2, life / 2 % 2, &store, &problem), "It opens.");
    std::vector<int64_t> keys;
    std::vector<Row> rows;
    for (int64_t key = 0; key < 400; ++key) keys.push_back(key), rows.push_back(RowOf(key));
    Require(!ctrlab_store_put(store, keys.data(), rows.data(), 400, &problem), problem.sentence);
    Require(!ctrlab_store_snapshot(store, &snapshot, &size, &problem), problem.sentence);
    std::atomic<int> calls = 0;
    const auto until_closed = [&](auto call) {
      return std::thread([&, call] {
        StoreProblem mine;
        while (!call(&mine)) ++calls;
        Require(std::string(mine.sentence) == kClosed, mine.sentence);
      });
    };
    std::vector<Row> got(400);
    std::vector<uint8_t> found(400);
    std::vector<std::thread> threads;
    threads.push_back(until_closed([&](StoreProblem* p) { return ctrlab_store_put(store, keys.data(), rows.data(), 400, p); }));
    threads.push_back(
        until_closed([&](StoreProblem* p) { return ctrlab_store_get(store, keys.data(), 400, got.data(), found.data(), p); }));
    threads.push_back(until_closed([&](StoreProblem* p) { return ctrlab_store_flush(store, p); }));
    threads.push_back(until_closed([&](StoreProblem* p) { return ctrlab_store_compact(store, p); }));
    threads.push_back(until_closed([&](StoreProblem* p) {
      StoreNumbers numbers;
      StoreProblem warning;
      return ctrlab_store_stats(store, &numbers, p) || ctrlab_store_warning(store, 0, &warning, p);
    }));
    while (calls < 20) std::this_thread::yield();
    std::thread(ctrlab_store_close, store).join();
    ctrlab_store_close(store);
    // After close the folder is free: another store may use it.
    int64_t another = 0;
    Require(!ctrlab_store_open(folder.c_str(), kRowBytes, 6000, 4096, 1, 0, &another, &problem), problem.sentence);
    for (std::thread& thread : threads) thread.join();
    ctrlab_store_close(another);
    // Objects that outlive the store.
    int64_t count = 0, seen = 0;
    do {
      Require(!ctrlab_store_next(snapshot, 400, keys.data(), got.data(), &count, &problem), problem.sentence);
      for (int64_t i = 0; i < count; ++i) Require(got[i] == RowOf(keys[i]), "A snapshot's rows are what they were.");
      seen += count;
    } while (count > 0);
    Require(seen == 400 && size == 400, "A snapshot outlives its store: " + std::to_string(seen));
    ctrlab_store_release(snapshot);
    ctrlab_store_release(snapshot);
    Require(ctrlab_store_next(snapshot, 1, keys.data(), got.data(), &count, &problem) == 1, "It was released.");
  }
}

}  // namespace ctrlab::check::store
