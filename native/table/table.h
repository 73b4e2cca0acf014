// The rows of one embedding variable in memory: a concurrent hash table of int64 keys, any of them legal.
//
// ctrlab/embedding/reference.py (NumPy) defines each call. No result depends on the order of arrival or on threads. Lookups
// (lookup.h) may run at any time, in parallel. Calls that change the table wait for each other. Only their short exclusive phase
// excludes lookups: the change of values in a step, imported rows, or the swap of an array. In that phase nobody waits for a
// disk, reads from one, or frees memory. The exception is a lookup whose rows moved again and again while it read them: it then
// reads with the gate closed to writers.
//
// Calls do not throw, unless memory runs out for a sentence (of Stats or of an error). A call that returns a problem has changed
// nothing, except that a consumer's first cut starts logging for it.

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

// The merged keys of one step, ascending and distinct. Counts, at least 1, are occurrences in the batch.
struct MergedBatch {
  const int64_t* keys;    // [n]
  const int64_t* counts;  // [n]
  const float* gradient;  // [n, D]
  int64_t size;           // n
};

struct TableStats {
  int64_t rows = 0, candidates = 0;  // rows in both tiers
  int64_t rows_below = 0;            // rows in the tier below the memory
  int64_t bytes = 0;                 // now in memory: rows, slots, index, filter, change log, and the memory of the store below
  int64_t peak_bytes = 0;            // the maximum since the table was made
  int64_t hits = 0, hits_below = 0;  // lookups whose row was in memory; lookups whose row was read from below
  int64_t misses = 0;                // lookups without a row: the three add up to all keys looked up
  int64_t logged = 0;                // keys in the change log
  std::string problem;               // why rows could not move down in the background the last time; empty if they could
};

class Table;

// One table's arguments in a step.
struct TableStep {
  Table* table;
  MergedBatch batch;
};

// One step of an optimizer at rule.step (t: whole, in [1, 2^31)) on several tables, each given once and with the slots that the
// rule needs. It counts and admits keys, makes rows, and changes values and slots. Bitwise equal for any number of threads. With
// clip_norm, a table's norm is over the keys that have a row after admission. Either all tables take the step or none; then
// `which` (may be null) is the table that could not.
Status Update(std::span<const TableStep> steps, const StepRule& rule, const ParallelFor& parallel_for, int64_t* which = nullptr);

// squares[t]: the sum of squares by which that Update would clip table t, bit for bit. It refuses what the Update refuses, except
// for memory, and changes only which rows are in memory. Of the rule it needs the kind and the step.
Status Norms(std::span<const TableStep> steps, const StepRule& rule, const ParallelFor& parallel_for, double* squares,
             int64_t* which = nullptr);

class Table {
 public:
  // Refuses a dim outside [1, 2^16), and options that options.py refuses.
  static Status CheckOptions(const TableOptions& options);
  static Status Make(const TableOptions& options, std::unique_ptr<Table>* table);

  int64_t dim() const { return options_.dim; }
  RowFormat format() const { return options_.format; }
  // The numbers that a lookup gives for a key.
  int64_t numbers() const { return format() == RowFormat::kFloat32 ? dim() : options_.numbers; }
  int64_t slots() const;         // S: 0 until SetSlots
  int64_t filter_bytes() const;  // of a Bloom filter; 0 without one

  // Puts a tier below the memory. The memory then holds at most `memory_rows` rows, or the rows of the last update or Import if
  // these are more. Call it before there are rows. Open opens the tier, or else the first update does.
  Status SetTier(TierOptions options);
  Status Open();
  // Moves up to `memory_rows` of these keys' rows up into memory, so that the next lookup finds them there. Returns at once
  // without a tier.
  Status Prefetch(const int64_t* keys, int64_t count, const ParallelFor& parallel_for);
  // The keys whose rows are below.
  Status KeysBelow(std::vector<int64_t>* keys) const;

  // Gives each row `count` slots (0 to 2) beside its value; new slots begin at initial[s]. If the count is the current one,
  // existing rows keep their slots, and only new rows begin at `initial`. Otherwise old slots are dropped; refused while rows are
  // below the memory.
  Status SetSlots(int64_t count, const float* initial);

  // Updates this table alone.
  Status Update(const MergedBatch& batch, const StepRule& rule, const ParallelFor& parallel_for) {
    const TableStep step{this, batch};
    return embedding::Update({&step, 1}, rule, parallel_for);
  }

  // Evicts rows and candidates with step - last step > steps_to_live. `removed` (may be null): number of rows. Lookups may run.
  Status EvictSteps(int64_t step, int64_t steps_to_live, const ParallelFor& parallel_for, int64_t* removed);
  // Evicts rows whose value has an L2 norm below the threshold. A Bloom filter forgets nothing, so an evicted key may get a row
  // at its next occurrence.
  Status EvictNorms(double threshold, const ParallelFor& parallel_for, int64_t* removed);

  // Writes all keys of `shard`, at one moment, to the arrays that make_room gives. Lookups may run.
  Status Export(Shard shard, const MakeRoom& make_room, const ParallelFor& parallel_for);

  // The changes since the version that a consumer confirmed; or everything, for a consumer that the change log does not know.
  Status CutFor(const std::string& consumer, const ParallelFor& parallel_for, std::unique_ptr<Cut>* cut);
  // Says that the consumer has that cut; until then the next cut gives it again.
  Status Confirm(const std::string& consumer, int64_t version);
  // Says that the consumer has the current content; gives its version.
  Status CaughtUp(const std::string& consumer, int64_t* version);
  void Forget(const std::string& consumer);

  // Imports the keys of `shard` from `in`, as `kind` says. `slots` in `in` are either all of the table's or none (then they begin
  // at their initial values). A table without slots and rows takes `slot_count` slots; until SetSlots, new rows then begin at 0.
  // Refused: repeated keys (rows and candidates together), frequencies outside [0, 2^32), candidates' counts outside [1, 2^31),
  // steps outside [0, 2^31), a filter of another size. Imported keys count as changed.
  Status Import(ImportKind kind, Shard shard, const StateSizes& sizes, int64_t slot_count, const StateIn& in,
                const ParallelFor& parallel_for);

  // An Import of kind kMore or kChanges, prepared: all that can fail is done, and nothing of it is visible yet. Until this object
  // is destroyed, other changes of the table wait, also those by the thread that holds it. The arrays of `in` must live as long.
  class Prepared;
  Status Prepare(ImportKind kind, Shard shard, const StateSizes& sizes, int64_t slot_count, const StateIn& in,
                 const ParallelFor& parallel_for, std::unique_ptr<Prepared>* prepared);

  // For a state that arrives in parts: an empty table with the same options, for Imports. Adopt then swaps the two tables'
  // contents at once. A stage can be adopted once, by the table that made it.
  Status Stage(std::unique_ptr<Table>* stage) const;
  Status Adopt(Table* stage);

  TableStats Stats() const;

 private:
  friend class TableReader;  // lookup.cc
  friend Status Update(std::span<const TableStep>, const StepRule&, const ParallelFor&, int64_t*);
  friend Status Norms(std::span<const TableStep>, const StepRule&, const ParallelFor&, double*, int64_t*);

  // Everything that Adopt replaces.
  struct Content {
    Content(int64_t dim, int64_t slots, const Admission& admission)
        : rows(std::make_unique<Rows>(dim, slots)),
          filter(admission.kind == AdmissionKind::kBloom ? BloomFilter(admission) : BloomFilter()) {}

    int64_t bytes() const { return index.bytes() + rows->bytes() + filter.bytes(); }

    Index index;
    std::unique_ptr<Rows> rows;
    BloomFilter filter;
  };
  // The keys that are about to leave the memory, per shard of the index, and the row numbers of those that have a row.
  struct Leaving {
    std::vector<std::vector<int64_t>> keys;
    std::vector<std::vector<uint32_t>> rows;
  };
  class Step;        // step.h
  class Incoming;    // import.cc
  class OtherSlots;  // import.cc

  explicit Table(const TableOptions& options)
      : options_(options), initial_(options.initializer, options.dim), log_(Index::kShards) {}

  // update.cc: with `squares` only these, otherwise the step.
  static Status StepAll(std::span<const TableStep> steps, const StepRule& rule, const ParallelFor& parallel_for, double* squares,
                        int64_t* which);

  void FillNew(int64_t key, const Rows& rows, uint32_t row) const;
  using Goes = std::function<bool(const Entry&)>;
  Leaving PrepareToRemove(const Goes& goes, const std::vector<int64_t>& room, const std::vector<int64_t>& below,
                          const ParallelFor& parallel_for);
  Index::Old PublishRemoval();  // alone
  void AllMoved() {             // alone
    for (int64_t& moves : moves_) ++moves;
  }
  // Selects what is evicted, by last step and value; the value is null for keys without a row.
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
  bool HasRowsBelow() const { return tier_ && tier_->open(); }  // whether there may be some; inside the gate
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
  using Piece = std::span<const Victim>;  // within one shard
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
  Status WrongFilter(int64_t bytes) const;
  Status FindBelow(const StateSizes& sizes, const StateIn& in, Shard shard, const std::vector<int64_t>& removed,
                   std::vector<int64_t>* below) const;
  Status SinkImported();

  static int64_t NextId();

  const int64_t id_ = NextId();
  const TableOptions options_;
  const InitialValues initial_;

  mutable FairMutex writer_;  // held by every change of the members below
  Gate gate_;                 // also held for changes that lookups must not see half done
  int64_t stage_of_ = 0;      // id of the table that made this stage and has not adopted it; 0: not a stage
  std::unique_ptr<Content> content_;
  std::unique_ptr<Tier> tier_;  // null without a tier
  // Per shard of the index, incremented (with exclusive access) whenever its rows leave the memory or the store below.
  std::array<int64_t, Index::kShards> moves_{};
  ChangeLog log_;
  // The keys of the last two Prefetches: one batch is trained on while the rows of the other are loaded. They move down only if
  // an update finds no room otherwise.
  std::vector<int64_t> fetched_, fetched_before_;
  float slot_initial_[2] = {0, 0};
  int64_t peak_bytes_ = 0;
  std::atomic<int64_t> hits_ = 0, misses_ = 0, hits_below_ = 0;
  Status demotion_ended_;             // the last result of demotion
  std::unique_ptr<Worker> demotion_;  // last, because its thread uses all members above
};

class Table::Prepared {
 public:
  ~Prepared();
  // Changes the table at once, in memory, and can't fail. Call it at most once. Rows that no longer fit into memory move down when
  // this object is destroyed.
  void Commit();

 private:
  friend class Table;
  struct Work;

  explicit Prepared(std::unique_ptr<Work> work);

  const std::unique_ptr<Work> work_;
};

}  // namespace ctrlab::embedding
