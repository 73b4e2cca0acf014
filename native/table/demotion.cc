// Moves rows from a table's memory down into its tier: mostly in the table's own thread, in small pieces, so that others wait
// briefly; and in an update that finds no room.

#include <algorithm>
#include <iterator>
#include <mutex>
#include <new>
#include <shared_mutex>

#include "table/messages.h"
#include "table/sorted.h"
#include "table/table.h"

namespace ctrlab::embedding {

// The number of rows that memory has room for.
int64_t Table::Room() const { return tier_->options().memory_rows - content_->rows->taken(); }

// Half of the room that demotion makes may be used before it runs again.
void Table::WakeDemotion() {
  if (!demotion_ || !HasRowsBelow()) return;
  if (Room() < (tier_->spare() + 1) / 2 || std::ssize(tier_->dead()) >= kPieceRows) demotion_->Wake();
}

bool Table::Demote(const std::atomic<bool>& stop) {
  Status status = EraseDead(stop);
  if (Status sunk = MakeSpareRoom(stop); status.ok()) status = std::move(sunk);
  std::lock_guard writer(writer_);
  demotion_ended_ = std::move(status);
  return demotion_ended_.ok();
}

// Compacts the store when its garbage is far above the limit, because the store's writers here do not do it. It holds no lock: it
// takes as long as a compaction.
Status Table::Relieve() try {
  std::shared_ptr<SegmentStore> store;
  {
    std::shared_lock reader(gate_);
    if (HasRowsBelow()) store = tier_->store();
  }
  return store ? store->Relieve() : Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

// Erases dead records in small pieces, then forgets keys that are gone.
Status Table::EraseDead(const std::atomic<bool>& stop) try {
  for (bool more = true; more && !stop;) {
    if (Status bad = Relieve(); !bad.ok()) return bad;
    std::lock_guard writer(writer_);
    if (!HasRowsBelow()) return Status();
    std::vector<int64_t>& dead = tier_->dead();
    std::vector<int64_t> piece;
    const int64_t count = std::min(kPieceRows, std::ssize(dead));
    std::copy_if(dead.end() - count, dead.end(), std::back_inserter(piece),
                 [&](int64_t key) { return content_->index.FindEntry(key, HashKey(key)) != nullptr; });
    SortOnce(&piece);  // a row that moved up, down and up again is listed twice
    const int64_t before = tier_->CountBelow(piece);
    Status status;
    try {
      status = tier_->store()->Erase(piece.data(), std::ssize(piece));
    } catch (const std::bad_alloc&) {
      status = OutOfMemory();  // possibly after erasing them
    }
    tier_->FewerDead(before - (status.ok() ? 0 : tier_->CountBelow(piece)));
    if (!status.ok()) return status;
    dead.resize(dead.size() - count);
    more = !dead.empty();
  }
  for (int64_t s = 0; s < Index::kShards && !stop; ++s) {
    Index::Old old;
    std::lock_guard writer(writer_);
    Index& index = content_->index;
    if (!HasRowsBelow() || !tier_->dead().empty()) return Status();
    if (index.gone(s) * 8 <= index.entries(s)) continue;
    index.Sift(s, index.entries(s) - index.gone(s),
               [](const Entry& entry) { return IsLive(entry.ref.load(std::memory_order_relaxed)); });
    std::lock_guard alone(gate_);
    index.Publish(s);
    old = index.TakeOld();
  }
  std::lock_guard writer(writer_);
  if (HasRowsBelow() && tier_->dead().empty()) std::vector<int64_t>().swap(tier_->dead());
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

// First selects rows, then moves down those that have not changed since: it releases the writers' lock after each shard and
// piece.
Status Table::MakeSpareRoom(const std::atomic<bool>& stop) try {
  std::vector<Victim> victims;
  std::vector<uint8_t> marked;
  int64_t count = 0;
  for (int64_t s = 0; s < Index::kShards; ++s) {
    std::lock_guard writer(writer_);
    if (!HasRowsBelow()) return Status();
    if (s == 0) marked = RowsOf({fetched_, fetched_before_});
    count = tier_->spare() - Room();
    if (count <= 0) return Status();
    AddVictims(s, marked, std::max(count, tier_->spare()), &victims);  // lookups use up room meanwhile
  }
  const std::vector<Piece> pieces = InPieces(&victims, count, kPieceRows);
  for (const Piece& piece : pieces) {
    if (Status bad = Relieve(); !bad.ok()) return bad;
    std::lock_guard writer(writer_);
    if (stop || !HasRowsBelow() || Room() >= tier_->spare()) return Status();
    std::vector<Victim> still;  // a prefetch may have come since they were selected
    std::copy_if(piece.begin(), piece.end(), std::back_inserter(still), [&](const Victim& victim) {
      return !std::binary_search(fetched_.begin(), fetched_.end(), victim.key) &&
             !std::binary_search(fetched_before_.begin(), fetched_before_.end(), victim.key);
    });
    if (Status bad = SinkPiece(still); !bad.ok()) return bad;
  }
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

// Makes room in memory for `incoming` rows by moving down rows outside `kept`; prefetched ones only if there are no others.
// Throws std::bad_alloc.
Status Table::Sink(int64_t incoming, std::span<const int64_t> kept) {
  if (Room() >= incoming) return Status();
  const int64_t count = incoming + tier_->spare() - Room();
  std::vector<Victim> victims;
  const auto choose = [&](const std::vector<uint8_t>& marked) {
    victims.clear();
    for (int64_t s = 0; s < Index::kShards; ++s) AddVictims(s, marked, count, &victims);
  };
  choose(RowsOf({kept, fetched_, fetched_before_}));
  if (std::ssize(victims) < incoming - Room()) {
    fetched_.clear(), fetched_before_.clear();
    choose(RowsOf({kept}));
  }
  for (const Piece& piece : InPieces(&victims, count, std::ssize(victims))) {
    if (Status bad = SinkPiece(piece); !bad.ok()) return Room() >= incoming ? Status() : bad;
  }
  return Status();
}

// A mark for each row of these keys, by row number.
std::vector<uint8_t> Table::RowsOf(std::initializer_list<std::span<const int64_t>> lists) const {
  std::vector<uint8_t> marked(content_->rows->used());
  for (const std::span<const int64_t> keys : lists) {
    for (const int64_t key : keys) {
      if (const Ref ref = content_->index.Find(key, HashKey(key)); IsRow(ref)) marked[ref - 1] = 1;
    }
  }
  return marked;
}

uint64_t Table::OrderOf(const Entry& entry, Ref ref) const {
  return tier_->Order(content_->rows->Frequency(ref - 1), static_cast<uint32_t>(entry.step()));
}

void Table::KeepFirst(int64_t count, std::vector<Victim>* victims) {
  if (count >= std::ssize(*victims)) return;
  std::nth_element(victims->begin(), victims->begin() + count, victims->end());
  victims->resize(count);
}

// Adds the unmarked rows of a shard; rows with numbers beyond the marks are left out. Candidates that are certainly not among the
// first `count` may be dropped again.
void Table::AddVictims(int64_t shard, const std::vector<uint8_t>& marked, int64_t count, std::vector<Victim>* victims) const {
  content_->index.ForEach(shard, [&](const Entry& entry) {
    const Ref ref = entry.ref.load(std::memory_order_relaxed);
    if (!IsRow(ref) || (ref <= marked.size() && marked[ref - 1])) return;
    victims->push_back({OrderOf(entry, ref), entry.key.load(std::memory_order_relaxed), shard});
  });
  if (std::ssize(*victims) > 2 * count) KeepFirst(count, victims);
}

// The first `count` of the victims, in pieces of one shard each.
std::vector<Table::Piece> Table::InPieces(std::vector<Victim>* victims, int64_t count, int64_t most) {
  KeepFirst(count, victims);
  std::sort(victims->begin(), victims->end(),
            [&](const Victim& a, const Victim& b) { return a.shard != b.shard ? a.shard < b.shard : a < b; });
  std::vector<Piece> pieces;
  for (const Victim& victim : *victims) {
    if (pieces.empty() || pieces.back().front().shard != victim.shard || std::ssize(pieces.back()) == most) {
      pieces.push_back({&victim, 0});
    }
    pieces.back() = {pieces.back().data(), pieces.back().size() + 1};
  }
  return pieces;
}

// Moves a piece's rows down, except for those that have changed since they were selected.
Status Table::SinkPiece(Piece piece) {
  Rows& rows = *content_->rows;
  Index& index = content_->index;
  std::vector<const Entry*> entries;
  for (const Victim& victim : piece) {
    const Entry* entry = index.FindEntry(victim.key, HashKey(victim.key));
    if (!entry) continue;
    const Ref ref = entry->ref.load(std::memory_order_relaxed);
    if (IsRow(ref) && OrderOf(*entry, ref) == victim.order) entries.push_back(entry);
  }
  if (entries.empty()) return Status();
  std::sort(entries.begin(), entries.end());  // in shard order
  const int64_t count = std::ssize(entries), shard = piece.front().shard;
  const Record record = tier_->record();
  std::vector<int64_t> keys(count);
  std::vector<uint32_t> sinking(count);
  std::vector<uint8_t> was_below(count), is_below(count);
  const auto records = std::make_unique_for_overwrite<char[]>(count * record.bytes());
  for (int64_t k = 0; k < count; ++k) {
    sinking[k] = entries[k]->ref.load(std::memory_order_relaxed) - 1;
    keys[k] = entries[k]->key.load(std::memory_order_relaxed);
    record.Write(records.get() + k * record.bytes(), rows.Row(sinking[k]), rows.Frequency(sinking[k]),
                 static_cast<uint32_t>(entries[k]->step()));
  }
  SegmentStore& store = *tier_->store();
  if (Status bad = store.Find(keys.data(), count, was_below.data()); !bad.ok()) return bad;
  rows.ReserveFree(count);
  tier_->ReserveDead(count);
  auto next = entries.begin();
  index.Sift(shard, index.entries(shard) - count, [&](const Entry& entry) {
    if (next == entries.end() || &entry != *next) return true;
    ++next;
    return false;
  });
  NotePeak();
  Status status;
  try {
    status = store.Put(keys.data(), records.get(), count);
  } catch (const std::bad_alloc&) {
    status = OutOfMemory();
  }
  if (!status.ok()) {  // records that a full disk still took are dead: those rows are in memory
    (void)store.Find(keys.data(), count, is_below.data());
    int64_t taken = 0;
    for (int64_t k = 0; k < count; ++k) {
      if (is_below[k] && !was_below[k]) keys[taken++] = keys[k];
    }
    keys.resize(taken);
    tier_->NoteDead(keys, taken);
    index.Discard();
    return status;
  }
  tier_->FewerDead(std::count(was_below.begin(), was_below.end(), 1));
  Index::Old old;
  {
    std::lock_guard alone(gate_);
    index.Publish(shard);
    old = index.TakeOld();
    ++moves_[shard];
  }
  rows.Free(sinking);
  return Status();
}

}  // namespace ctrlab::embedding
