#include "store/scratch.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "store/files.h"
#include "store/folder.h"
#include "store/no_throw.h"
#include "store/process.h"
#include "store/segment.h"
#include "store/worker.h"

namespace ctrlab::embedding {

namespace {

constexpr std::string_view kMark =
    "Rows of an embedding variable, beyond those in memory. They are erased when another one is put here.\n";

bool IsStoreFile(const std::string& name) {
  return name == "LOCK" || name == "MANIFEST" || name == "MANIFEST.new" || SegmentNumber(name) > 0;
}

// The number of a store's folder; 0 for another name.
uint64_t StoreNumber(const std::string& name) {
  uint64_t number = 0;
  std::from_chars(name.data(), name.data() + name.size(), number);
  return std::to_string(number) == name ? number : 0;
}

// The problem with its cure.
Status Cured(const Status& status, const std::string& cure) {
  std::string problem = status.problem();
  if (problem.ends_with('.')) problem.pop_back();
  return Status(problem + ": " + cure + ".");
}

// The folder that the stores of a table share.
class Scratch {
 public:
  explicit Scratch(std::string path) : path_(std::move(path)) {}
  ~Scratch() {
    cleaner_ = nullptr;
    if (next_ > 0) Quietly([&] { Clean(false); });
  }

  Status Open() {
    if (Status status = MakeFolder(path_); !status.ok()) return Cured(status, "name another folder");
    if (Status status = FolderLock::Take(path_, &lock_); !status.ok()) {
      return Cured(status, "close() the model or variable that has it, or name another folder");
    }
    std::vector<std::string> names;
    if (Status status = NamesIn(path_, &names); !status.ok()) return status;
    const bool marked = std::find(names.begin(), names.end(), "TIER") != names.end();
    uint64_t highest = 0;
    for (const std::string& name : names) {
      if (name == "LOCK" || name == "TIER") continue;
      if (!marked || !(IsStoreFile(name) || IsStore(name))) {
        return Status("The folder " + path_ + " holds " + name + " that no embedding variable put there, which using it as " +
                      "storage would erase: name another folder.");
      }
      highest = std::max(highest, StoreNumber(name));
    }
    if (!marked) {
      if (Status status = Mark(); !status.ok()) return status;
    }
    next_ = highest + 1;
    cleaner_ = std::make_unique<Worker>("ctrlab-scratch", [this](const auto& stop) { return Clean(stop), true; });
    cleaner_->Wake();
    return Status();
  }

  // The holder of the result owns the folder of that name, which is deleted with the last holder.
  static std::shared_ptr<const void> Take(const std::shared_ptr<Scratch>& scratch, std::string* folder) {
    uint64_t number;
    {
      std::lock_guard lock(scratch->mutex_);
      scratch->taken_.insert(number = scratch->next_++);
    }
    // If the allocation fails, shared_ptr calls the deleter at once, which takes the lock.
    std::shared_ptr<const void> held(scratch.get(), [scratch, number](const void*) {
      std::lock_guard lock(scratch->mutex_);
      scratch->taken_.erase(number);
      scratch->cleaner_->Wake();
    });
    *folder = scratch->path_ + "/" + std::to_string(number);
    return held;
  }

  const OwnProcess process;

 private:
  bool IsStore(const std::string& name) const {
    struct stat about;
    std::vector<std::string> files;
    return StoreNumber(name) > 0 && lstat((path_ + "/" + name).c_str(), &about) == 0 && S_ISDIR(about.st_mode) &&
           NamesIn(path_ + "/" + name, &files).ok() && std::all_of(files.begin(), files.end(), IsStoreFile);
  }

  Status Mark() const {
    const Status written = WriteFile(path_ + "/TIER", kMark);
    return written.ok() ? SyncFolder(path_) : written;
  }

  // Removes stores' files that nobody holds. What can't be removed now is tried again by the next table.
  void Clean(const std::atomic<bool>& stop) {
    std::vector<std::string> names, files;
    (void)!NamesIn(path_, &names).ok();
    for (const std::string& name : names) {
      const std::string path = path_ + "/" + name;
      if (name == "LOCK" || name == "TIER") continue;
      if (StoreNumber(name) == 0) {
        if (IsStoreFile(name)) unlink(path.c_str());
        continue;
      }
      if (std::lock_guard lock(mutex_); taken_.contains(StoreNumber(name))) continue;
      files.clear();
      (void)!NamesIn(path, &files).ok();
      for (const std::string& file : files) {
        if (stop) return;
        if (IsStoreFile(file)) unlink((path + "/" + file).c_str());
      }
      rmdir(path.c_str());
    }
  }

  const std::string path_;
  std::unique_ptr<FolderLock> lock_;
  std::mutex mutex_;
  std::set<uint64_t> taken_;
  uint64_t next_ = 0;  // 0: not open
  std::unique_ptr<Worker> cleaner_;
};

class Stores {
 public:
  explicit Stores(StoreOptions options) : options_(std::move(options)) {}

  Status Open(int64_t row_bytes, std::unique_ptr<SegmentStore>* store) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Scratch> scratch = scratch_.lock();
    if (!scratch) {
      scratch = std::make_shared<Scratch>(options_.path);
      if (Status status = scratch->Open(); !status.ok()) return status;
      scratch_ = scratch;
    }
    if (!scratch->process.Here()) return scratch->process.Refusal();
    StoreOptions options = options_;
    options.row_bytes = row_bytes;
    options.scratch = true;
    options.held = Scratch::Take(scratch, &options.path);
    return SegmentStore::Open(options, store);
  }

 private:
  const StoreOptions options_;
  std::mutex mutex_;
  std::weak_ptr<Scratch> scratch_;  // as long as one of its stores
};

}  // namespace

OpenStore StoresIn(StoreOptions options) {
  return [stores = std::make_shared<Stores>(std::move(options))](int64_t row_bytes, std::unique_ptr<SegmentStore>* store) {
    return NoThrow([&] { return stores->Open(row_bytes, store); });
  };
}

}  // namespace ctrlab::embedding
