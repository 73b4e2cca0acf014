// The rows of one embedding variable in memory: a concurrent hash table of int64 keys, any of them legal.
//
// What a call does is defined by ctrlab/embedding/reference.py (NumPy). Nothing depends on the order of arrival or on threads.
// Lookups (lookup.h) may run at any time, many at once. Calls that change the table wait for each other; only their short
// exclusive phase (the step on the values, rows that come in by an Import, the moment at which an array takes another's place)
// waits for lookups, and lookups for it. Nobody waits for a disk, reads one or frees memory there, but for a lookup that has
// found the rows it read moved again and again: it reads with the gate shut to writers.
//
// No call throws, but where it lacks the memory for a sentence: of Stats, or of a refusal. A call that returns a problem has
// changed nothing, but for a consumer's first cut, from which on changes are noted for it.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/abi.h"
#include "kernels/optimizer_step/optimizer_step.h"
#include "store/gate.h"
#include "store/hash.h"
#include "store/status.h"
#include "store/worker.h"
#include "table/bloom.h"
#include "table/change_log.h"
#include "table/cut.h"
#include "table/index.h"
#include "table/initial_values.h"
#include "table/options.h"
#include "table/rows.h"
#include "table/state.h"
#include "table/tier.h"

namespace ctrlab::embedding {

// The keys of one step. Ascending, each once; counts at least 1: how often the key came in the batch.
struct MergedBatch {
  const int64_t* keys;    // [n]
  const int64_t* counts;  // [n]
  const float* gradient;  // [n, D]
  int64_t size;           // n
};

struct TableStats {
  int64_t rows = 0, candidates = 0;  // rows of both tiers
  int64_t rows_below = 0;            // rows in the tier below the memory
  int64_t bytes = 0;                 // held in memory now: rows, slots, index, filter, change log, and what the store below holds
  int64_t peak_bytes = 0;            // the most since the table was made
  int64_t hits = 0, hits_below = 0;  // keys looked up whose row was in memory; whose row was read from below
  int64_t misses = 0;                // keys looked up that had no row: the three add up to all keys looked up
  int64_t logged = 0;                // keys in the change log
  std::string problem;               // why rows could not sink in the background the last time; empty: they could
};

class Table;

// What one step does to a table.
struct TableStep {
  Table* table;
  MergedBatch batch;
};

// One step at rule.step (t: whole, in [1, 2^31)) of an optimizer on several tables, each given once, with as many slots as it
// needs: counts, admits, makes rows, changes values and slots. The same bits on any number of threads. With clip_norm: a table's
// norm is over the keys that have a row, once admitted. Either all tables take the step or none does; then `which` (may be null)
// is the one that could not.
Status Update(std::span<const TableStep> steps, const StepRule& rule, const ParallelFor& parallel_for, int64_t* which = nullptr);

class Table {
 public:
  // Refuses a dim outside [1, 2^16) and options that options.py refuses.
  static Status CheckOptions(const TableOptions& options);
  static Status Make(const TableOptions& options, std::unique_ptr<Table>* table);

  int64_t dim() const { return options_.dim; }
  int64_t slots() const;         // S: 0 until SetSlots
  int64_t filter_bytes() const;  // of a Bloom filter; 0 without one

  // Puts a tier below the memory, which then holds `memory_rows` rows at most, or those of the last update or Import where they
  // are more; before there are rows. It is opened with the first update.
  Status SetTier(TierOptions options);
  // Brings the rows of these keys up, as many as `memory_rows`, so that the lookup that comes finds them; nothing to wait for
  // where there is no tier.
  Status Prefetch(const int64_t* keys, int64_t count, const ParallelFor& parallel_for);
  // The keys whose rows are below.
  Status KeysBelow(std::vector<int64_t>* keys) const;

  // Gives each row `count` slots (0 to 2) beside its value; new ones begin at initial[s]. With the count it has already, rows
  // stay as they are and only rows to come begin at `initial`. With another, old slots go; refused while rows are below the
  // memory.
  Status SetSlots(int64_t count, const float* initial);

  // Of this table alone.
  Status Update(const MergedBatch& batch, const StepRule& rule, const ParallelFor& parallel_for) {
    const TableStep step{this, batch};
    return embedding::Update({&step, 1}, rule, parallel_for);
  }

  // Rows and candidates with step - last step > steps_to_live go. `removed` (may be null): how many rows. Lookups run meanwhile.
  Status EvictSteps(int64_t step, int64_t steps_to_live, const ParallelFor& parallel_for, int64_t* removed);
  // Rows whose value has an L2 norm below the threshold go. A Bloom filter forgets nothing, so a key that went and comes
  // again may have a row at once.
  Status EvictNorms(double threshold, const ParallelFor& parallel_for, int64_t* removed);

  // Writes all of `shard`'s keys to the arrays that make_room gives, from one moment; lookups run meanwhile.
  Status Export(Shard shard, const MakeRoom& make_room, const ParallelFor& parallel_for);

  // What changed since the version that a consumer confirmed; or everything, for one that the change log does not know.
  Status CutFor(const std::string& consumer, const ParallelFor& parallel_for, std::unique_ptr<Cut>* cut);
  // The consumer has what that cut gave; until it says so, the next cut gives it again.
  Status Confirm(const std::string& consumer, int64_t version);
  // The consumer has what the table holds now, and the version of that.
  Status CaughtUp(const std::string& consumer, int64_t* version);
  void Forget(const std::string& consumer);

  // Takes what comes of `shard`'s keys, as changes of what the table holds. `slots` in `in`: either all of the table's or none
  // (then they begin at their initial values); a table without slots and rows takes on `slot_count`, until SetSlots says what new
  // rows begin at (0 till then). Refused: keys twice (rows and candidates together), frequencies outside [0, 2^32), candidates'
  // counts outside [1, 2^31), steps outside [0, 2^31), a filter of another size. What comes counts as changed.
  Status Import(ImportKind kind, Shard shard, const StateSizes& sizes, int64_t slot_count, const StateIn& in,
                const ParallelFor& parallel_for);

  // A state that comes in parts: an empty table like this one, for Imports; then Adopt puts its content in place of this one's,
  // and this one's there, at once. A stage is adopted once, by the table that made it.
  Status Stage(std::unique_ptr<Table>* stage) const;
  Status Adopt(Table* stage);

  TableStats Stats() const;

 private:
  friend class TableReader;  // lookup.cc
  friend Status Update(std::span<const TableStep>, const StepRule&, const ParallelFor&, int64_t*);

  // All that an Adopt replaces.
  struct Content {
    Content(int64_t dim, int64_t slots, const Admission& admission)
        : rows(std::make_unique<Rows>(dim, slots)),
          filter(admission.kind == AdmissionKind::kBloom ? BloomFilter(admission) : BloomFilter()) {}

    int64_t bytes() const { return index.bytes() + rows->bytes() + filter.bytes(); }

    Index index;
    std::unique_ptr<Rows> rows;
    BloomFilter filter;
  };
  // What is about to leave the memory: of each shard of the index, its keys and the rows of those that have one.
  struct Leaving {
    std::vector<std::vector<int64_t>> keys;
    std::vector<std::vector<uint32_t>> rows;
  };
  class Step;        // step.h
  class Incoming;    // import.cc
  class OtherSlots;  // import.cc

  explicit Table(const TableOptions& options)
      : options_(options), initial_(options.initializer, options.dim), log_(Index::kShards) {}

  void FillNew(int64_t key, const Rows& rows, uint32_t row) const;
  using Goes = std::function<bool(const Entry&)>;
  Leaving PrepareToRemove(const Goes& goes, const std::vector<int64_t>& room, const std::vector<int64_t>& below,
                          const ParallelFor& parallel_for);
  Index::Old PublishRemoval();  // alone
  void AllMoved() {             // alone
    for (int64_t& moves : moves_) ++moves;
  }
  // What goes, by last step and value; the value is null for keys without a row.
  using Old = std::function<bool(int64_t step, const float* value)>;
  Status Evict(const Old& goes, const ParallelFor& parallel_for, int64_t* removed);
  void ReserveLog(const std::vector<int64_t>& more);
  ChangeLog::Clear ClearChanged() const;
  void NoteChange(int64_t shard, Entry* entry);
  Status CheckRoom(int64_t more) const;
  int64_t TotalRows() const { return content_->rows->taken() + (tier_ ? tier_->rows() : 0); }
  int64_t Bytes() const;
  void NotePeak(int64_t more = 0);

  // tier.cc
  bool HasRowsBelow() const { return tier_ && tier_->open(); }  // that there may be some; inside the gate
  Status OpenTier();
  void AddAbsent(const int64_t* keys, int64_t count, std::vector<int64_t>* absent) const;
  void BringUp(const RecordsRead& up);
  void BringUp(const RecordsRead& up, const std::vector<int64_t>& which);
  void RaiseRead(const RecordsRead& read);

  // demotion.cc
  static constexpr int64_t kPieceRows = 4096;
  struct Victim {
    uint64_t order;
    int64_t key, shard;

    bool operator<(const Victim& other) const { return order != other.order ? order < other.order : key < other.key; }
  };
  using Piece = std::span<const Victim>;  // of one shard
  int64_t Room() const;
  void WakeDemotion();
  bool Demote(const std::atomic<bool>& stop);
  Status EraseDead(const std::atomic<bool>& stop);
  Status MakeSpareRoom(const std::atomic<bool>& stop);
  Status Relieve();
  Status Sink(int64_t incoming, std::span<const int64_t> kept);
  std::vector<uint8_t> RowsOf(std::initializer_list<std::span<const int64_t>> lists) const;
  uint64_t OrderOf(const Entry& entry, Ref ref) const;
  static void KeepFirst(int64_t count, std::vector<Victim>* victims);
  void AddVictims(int64_t shard, const std::vector<uint8_t>& marked, int64_t count, std::vector<Victim>* victims) const;
  static std::vector<Piece> InPieces(std::vector<Victim>* victims, int64_t count, int64_t most);
  Status SinkPiece(Piece piece);

  // export.cc, import.cc
  struct Outgoing;
  template <class Walk>
  Outgoing Count(const Walk& walk, const ParallelFor& parallel_for) const;
  template <class Walk>
  void Write(const Walk& walk, const Outgoing& going, const StateOut& out, const ParallelFor& parallel_for) const;
  Status ImportMore(ImportKind kind, Shard shard, const StateSizes& sizes, int64_t slot_count, const StateIn& in,
                    const ParallelFor& parallel_for);
  Status WrongFilter(int64_t bytes) const;
  Status FindBelow(const StateSizes& sizes, const StateIn& in, Shard shard, const std::vector<int64_t>& removed,
                   std::vector<int64_t>* below) const;
  Status SinkImported();

  static int64_t NextId();

  const int64_t id_ = NextId();
  const TableOptions options_;
  const InitialValues initial_;

  mutable FairMutex writer_;  // whoever changes anything below holds it
  Gate gate_;                 // and this, too, for what lookups must not see half done
  int64_t stage_of_ = 0;      // the id of the table that made this as a stage and has not adopted it; 0: none
  std::unique_ptr<Content> content_;
  std::unique_ptr<Tier> tier_;  // null: there is none
  // Of each shard of the index, goes up whenever rows of it leave the memory or what is below, alone.
  std::array<int64_t, Index::kShards> moves_{};
  ChangeLog log_;
  // The keys of the last two Prefetches: while the rows of one are trained on, those of the other come. They sink only where an
  // update finds no room otherwise.
  std::vector<int64_t> fetched_, fetched_before_;
  float slot_initial_[2] = {0, 0};
  int64_t peak_bytes_ = 0;
  std::atomic<int64_t> hits_ = 0, misses_ = 0, hits_below_ = 0;
  Status demotion_ended_;             // how demotion ended the last time
  std::unique_ptr<Worker> demotion_;  // the last, for its thread uses all above
};

}  // namespace ctrlab::embedding
