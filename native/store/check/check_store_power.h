// Checks the store on a simulated disk: synced data is kept; of the rest, any part may be lost.
//
// The program is linked with --wrap for the calls below, which redirects them here. A sync writes nothing: it records the content
// of the file or folder at that moment. After a simulated loss of power, each file consists of blocks that were synced last and
// blocks that were written since. Each name refers to the file with which it was synced, to its current file, or to none. The
// same holds for the names of the folder and of its new parent folders: if one of them is lost, nothing is left.

#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <functional>
#include <mutex>
#include <set>

#include "check_store.h"

extern "C" int __real_fdatasync(int fd);
extern "C" int __real_fsync(int fd);

namespace ctrlab::check::store {

inline std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class Disk {
 public:
  // Watches the syncs in this folder, which need not exist. What exists now counts as durable.
  explicit Disk(const std::string& folder) : folder_(folder) {
    for (fs::path above = folder; !fs::exists(above); above = above.parent_path()) unsynced_.insert(above);
    for (const auto& [name, file] : Names()) synced_[file] = Bytes(PathOf(file));
    names_ = Names();
  }
  ~Disk() {
    for (const auto& [file, fd] : held_) close(fd);
  }

  void Synced(int fd) {
    std::lock_guard lock(mutex_);
    struct stat about;
    Require(fstat(fd, &about) == 0, "What is synced is open.");
    const std::string path = fs::read_symlink("/proc/self/fd/" + std::to_string(fd));
    if (S_ISDIR(about.st_mode)) {
      if (path == folder_) names_ = Names();
      std::erase_if(unsynced_, [&](const fs::path& folder) { return folder.parent_path() == path && fs::exists(folder); });
    } else if (path.starts_with(folder_ + "/")) {
      Hold(path);
      synced_[about.st_ino] = Bytes("/proc/self/fd/" + std::to_string(fd));
    }
  }

  // Writes what could be found after a loss of power now into another folder.
  void LosePower(const std::string& found, std::mt19937_64* random) {
    std::lock_guard lock(mutex_);
    fs::remove_all(found);
    fs::create_directories(found);
    for (size_t i = 0; i < unsynced_.size(); ++i) {
      if ((*random)() % 2) return;
    }
    const std::map<std::string, ino_t> now = Names();
    std::map<std::string, ino_t> all = now;
    all.insert(names_.begin(), names_.end());
    for (const auto& [name, ignored] : all) {
      const auto& names = (*random)() % 2 ? names_ : now;
      const auto file = names.find(name);
      if (file == names.end()) continue;
      const std::string written = Bytes(PathOf(file->second)), synced = synced_[file->second];
      std::string bytes((*random)() % 2 ? written.size() : synced.size(), 0);
      for (size_t begin = 0; begin < bytes.size(); begin += kBlock) {
        const std::string& from = (*random)() % 2 ? written : synced;
        if (begin < from.size()) from.copy(bytes.data() + begin, std::min<size_t>(kBlock, bytes.size() - begin), begin);
      }
      Write(found + "/" + name, bytes);
    }
  }

 private:
  std::map<std::string, ino_t> Names() {
    std::map<std::string, ino_t> names;
    if (!fs::exists(folder_)) return names;
    for (const auto& file : fs::directory_iterator(folder_)) {
      if (file.path().filename() == "LOCK") continue;
      if (const ino_t number = Hold(file.path())) names[file.path().filename()] = number;
    }
    return names;
  }

  // The file's inode number, which stays reserved while it is open; 0 if the file is gone.
  ino_t Hold(const std::string& path) {
    struct stat about;
    const int fd = open(path.c_str(), O_RDONLY);
    if (fd < 0 || fstat(fd, &about) != 0) return 0;
    if (!held_.emplace(about.st_ino, fd).second) close(fd);
    return about.st_ino;
  }

  std::string PathOf(ino_t file) const { return "/proc/self/fd/" + std::to_string(held_.at(file)); }

  const std::string folder_;
  std::mutex mutex_;
  std::map<ino_t, int> held_;
  std::map<ino_t, std::string> synced_;
  std::map<std::string, ino_t> names_;
  std::set<fs::path> unsynced_;  // the folder and its parents whose names are not durable
};

inline std::function<int(int fd)> sync_instead;  // replaces the wrapped syncs; only changed while no store is open
inline thread_local bool sync_as_ever = false;   // in this thread syncs work as usual

// Several lives of a store, each ended by a loss of power. In each life it also checks what other losses of power would leave.
class PowerCheck {
 public:
  explicit PowerCheck(const std::string& folder) : folder_(folder), moments_(rng()) {}

  void Lives(Compaction compaction) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    Live(compaction, folder_ + "/made/with/it/0", 1);
    for (int life = 1; life < 6; ++life) Live(compaction, folder_ + "/" + std::to_string(life), life + 1);
  }

 private:
  void Live(Compaction compaction, const std::string& path, int next) {
    Disk disk(path);
    const std::thread::id here = std::this_thread::get_id();
    bool looking = true;
    sync_instead = [&](int fd) {
      if (std::this_thread::get_id() == here && looking && moments_() % 4 == 0) Survivors(&disk, "other");
      disk.Synced(fd);
      return 0;
    };
    StoreOptions options = Options(path);
    options.compaction = compaction;
    auto store = Opened(options);
    for (int step = 0; step < 150; ++step) {
      const int64_t count = 1 + Below(40);
      const bool erase = Below(4) == 0;
      std::vector<int64_t> keys;
      std::vector<Row> rows;
      for (int64_t i = 0; i < count; ++i) {
        keys.push_back(RandomKey()), rows.push_back(RandomRow(rng()));
        since_.emplace_back(keys.back(), erase ? std::nullopt : std::optional(rows.back()));
      }
      Good(erase ? store->Erase(keys.data(), count) : store->Put(keys.data(), rows.data(), count));
      if (Below(8) == 0) {
        Good(store->Flush());
        for (const auto& change : since_) Do(change, &flushed_);
        since_.clear();
      }
      if (moments_() % 4 == 0) Survivors(&disk, "other");
    }
    flushed_ = Survivors(&disk, std::to_string(next));
    since_.clear();
    looking = false;
    store.reset();
    sync_instead = nullptr;
  }

  using Change = std::pair<int64_t, std::optional<Row>>;  // of a key: its row, or that it has none
  static void Do(const Change& change, Model* model) {
    if (change.second) {
      (*model)[change.first] = *change.second;
    } else {
      model->erase(change.first);
    }
  }

  // Opens what a loss of power would leave now. It must be the state after some operation since the last flush.
  Model Survivors(Disk* disk, const std::string& name) {
    disk->LosePower(folder_ + "/" + name, &moments_);
    sync_as_ever = true;
    const Model content = Content(*Opened(Options(folder_ + "/" + name)));
    Require(Content(*Opened(Options(folder_ + "/" + name))) == content, "A store that is opened again holds the same.");
    sync_as_ever = false;
    Model state = flushed_;
    for (auto change = since_.begin(); state != content && change != since_.end(); ++change) Do(*change, &state);
    Require(state == content, "What is there after a loss of power is the state after some operation since the last flush.");
    return content;
  }

  const std::string folder_;
  std::mt19937_64 moments_;
  Model flushed_;
  std::vector<Change> since_;
};

inline void CheckPower(const std::string& folder) {
  PowerCheck(folder).Lives(Compaction::kSync);
  PowerCheck(folder).Lives(Compaction::kAsync);
}

}  // namespace ctrlab::check::store

extern "C" inline int __attribute__((used)) __wrap_fdatasync(int fd) {
  using namespace ctrlab::check::store;
  return sync_instead && !sync_as_ever ? sync_instead(fd) : __real_fdatasync(fd);
}

extern "C" inline int __attribute__((used)) __wrap_fsync(int fd) {
  using namespace ctrlab::check::store;
  return sync_instead && !sync_as_ever ? sync_instead(fd) : __real_fsync(fd);
}
