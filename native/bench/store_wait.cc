// How long reads wait while a store compacts, beside a thread that only reads the clock: what that waits, the machine takes.
//
//   store_wait <folder> <keys> <row bytes> <batch> <segment bytes>     one JSON object on stdout
//
// All keys are put, three of five are erased, and compaction is waited for. In "quiet" batches of reads go on by themselves; then
// come as many keys, of which three of five are erased again: in "compacting" reads go on until no garbage is left. Past the page
// cache, so that the disk has as much to do for a read in both; all in the store's thread and two of ours.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "embedding/segment_store.h"

namespace {

using namespace ctrlab;
using namespace ctrlab::embedding;
using Clock = std::chrono::steady_clock;

void Good(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.problem().c_str());
  std::exit(1);
}

int64_t KeyOf(int64_t i) { return static_cast<int64_t>(static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15); }

double Seconds(Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); }

class Bench {
 public:
  Bench(SegmentStore& store, int64_t keys, int64_t row_bytes, int64_t batch)
      : store_(store), keys_(keys), row_bytes_(row_bytes), batch_(batch) {}

  // Puts the keys [first, first + keys), then erases three of five.
  void Age(int64_t first) {
    std::vector<int64_t> keys;
    const std::vector<char> rows(kAtOnce * row_bytes_, 'r');
    for (const bool erase : {false, true}) {
      for (int64_t i = first; i < first + keys_; ++i) {
        if (!erase || i % 5 < 3) keys.push_back(KeyOf(i));
        if (std::ssize(keys) < kAtOnce && i + 1 < first + keys_) continue;
        Good(erase ? store_.Erase(keys.data(), std::ssize(keys)) : store_.Put(keys.data(), rows.data(), std::ssize(keys)));
        keys.clear();
      }
    }
  }

  // Reads while `more()`.
  template <class More>
  void Read(const char* name, const More& more) {
    std::atomic<bool> stop = false;
    double control = 0;
    std::thread clock([&] {
      for (auto last = Clock::now(); !stop; last = Clock::now()) {
        std::this_thread::sleep_for(std::chrono::microseconds(500));
        control = std::max(control, Seconds(last) - 500e-6);
      }
    });
    std::mt19937_64 random(7);
    std::vector<int64_t> keys(batch_);
    std::vector<char> rows(batch_ * row_bytes_);
    std::vector<uint8_t> found(batch_);
    std::vector<double> took;
    while (more()) {
      for (int64_t& key : keys) key = KeyOf(static_cast<int64_t>(random() % static_cast<uint64_t>(keys_)) / 5 * 5 + 4);
      const auto begin = Clock::now();
      Good(store_.Get(keys.data(), batch_, rows.data(), found.data(), kAlone));
      took.push_back(Seconds(begin));
      if (std::find(found.begin(), found.end(), 0) != found.end()) Good(Status("A key was lost."));
    }
    stop = true;
    clock.join();
    std::sort(took.begin(), took.end());
    const auto at = [&](double share) { return took[static_cast<size_t>(share * static_cast<double>(took.size() - 1))]; };
    std::printf("\"%s\": {\"reads\": %zu, \"p50\": %.3g, \"p99\": %.3g, \"max\": %.3g, \"control_max\": %.3g}, ", name,
                took.size(), at(0.5), at(0.99), took.back(), control);
  }

 private:
  static constexpr int64_t kAtOnce = 4096;

  SegmentStore& store_;
  const int64_t keys_, row_bytes_, batch_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  StoreOptions options;
  options.path = argv[1];
  options.row_bytes = std::atoll(argv[3]);
  options.segment_bytes = std::atoll(argv[5]);
  options.direct = true;
  const int64_t keys = std::atoll(argv[2]) / 5 * 5;
  std::unique_ptr<SegmentStore> store;
  Good(SegmentStore::Open(options, &store));
  Bench bench(*store, keys, options.row_bytes, std::atoll(argv[4]));
  std::printf("{");
  bench.Age(0);
  Good(store->Compact());
  const auto start = Clock::now();
  bench.Read("quiet", [&] { return Seconds(start) < 3; });
  bench.Age(keys);
  std::atomic<bool> done = false;
  std::thread compaction([&] {
    Good(store->Compact());
    done = true;
  });
  const int64_t before = store->Stats().compactions;
  bench.Read("compacting", [&] { return !done; });
  compaction.join();
  const StoreStats stats = store->Stats();
  std::printf("\"compactions\": %ld, \"live\": %ld, \"total\": %ld}\n", long(stats.compactions - before), long(stats.live),
              long(stats.total));
}
