// How rows sink from a table's memory into the tier below: mostly in a thread of the table's own, a piece at a time, so that
// others wait for no more than that; and in an update that finds no room.

#include <algorithm>
#include <iterator>
#include <new>
#include <system_error>

#include "embedding/messages.h"
#include "embedding/table.h"

namespace ctrlab::embedding {

// Rows that may come into the memory before one must sink.
int64_t Table::Room() const { return tier_->options().memory_rows - content_->rows->taken(); }

// Without a thread, updates sink what they must themselves.
void Table::StartDemotion() try {
  if (!demotion_) demotion_ = std::make_unique<Worker>("ctrlab-demotion", [this](const auto& stop) { return Demote(stop); });
} catch (const std::system_error&) {
} catch (const std::bad_alloc&) {
}

// Half of the room that demotion makes may be taken before it is made again.
void Table::WakeDemotion() {
  if (demotion_ && tier_->open() && Room() < (tier_->spare() + 1) / 2) demotion_->Wake();
}

bool Table::Demote(const std::atomic<bool>& stop) {
  Status status = MakeSpareRoom(stop);
  std::lock_guard writer(writer_);
  demotion_ended_ = std::move(status);
  return demotion_ended_.ok();
}

// Chooses first, then sinks what is still as it was: the writers' lock is given away after every shard and every piece.
Status Table::MakeSpareRoom(const std::atomic<bool>& stop) try {
  std::vector<Victim> victims;
  std::vector<uint8_t> marked;
  int64_t count = 0;
  for (int64_t s = 0; s < Index::kShards; ++s) {
    std::lock_guard writer(writer_);
    if (!tier_->open()) return Status();
    if (s == 0) marked = RowsOf({fetched_, fetched_before_});
    count = tier_->spare() - Room();
    if (count <= 0) return Status();
    AddVictims(s, marked, &victims);
  }
  const std::vector<Piece> pieces = Cut(&victims, count, kPieceRows);
  for (const Piece& piece : pieces) {
    std::lock_guard writer(writer_);
    if (stop || !tier_->open() || Room() >= tier_->spare()) return Status();
    if (Status bad = tier_->Settle(); !bad.ok()) return bad;
    if (Status bad = SinkPiece(piece); !bad.ok()) return bad;
  }
  return Status();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

// Makes room in memory for so many rows, by other rows than those of `kept`; by what was fetched only where there are no others.
Status Table::Sink(int64_t incoming, const MergedBatch& kept) {
  if (Room() >= incoming) return Status();
  if (Status bad = tier_->Settle(); !bad.ok()) return bad;
  const std::span<const int64_t> keys(kept.keys, kept.size);
  std::vector<Victim> victims;
  const auto choose = [&](const std::vector<uint8_t>& marked) {
    victims.clear();
    for (int64_t s = 0; s < Index::kShards; ++s) AddVictims(s, marked, &victims);
  };
  choose(RowsOf({keys, fetched_, fetched_before_}));
  if (std::ssize(victims) < incoming - Room()) {
    fetched_.clear(), fetched_before_.clear();
    choose(RowsOf({keys}));
  }
  for (const Piece& piece : Cut(&victims, incoming + tier_->spare() - Room(), std::ssize(victims))) {
    if (Status bad = SinkPiece(piece); !bad.ok()) return Room() >= incoming ? Status() : bad;
  }
  return Status();
}

// 1 for each row of these keys, by its number.
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

// The rows of a shard of the index that are not marked; those whose number is beyond the marks are not.
void Table::AddVictims(int64_t shard, const std::vector<uint8_t>& marked, std::vector<Victim>* victims) const {
  content_->index.ForEach(shard, [&](const Entry& entry) {
    const Ref ref = entry.ref.load(std::memory_order_relaxed);
    if (!IsRow(ref) || (ref <= marked.size() && marked[ref - 1])) return;
    victims->push_back({OrderOf(entry, ref), entry.key.load(std::memory_order_relaxed), shard});
  });
}

// Of the victims, those `count` that sink first, in pieces of one shard each.
std::vector<Table::Piece> Table::Cut(std::vector<Victim>* victims, int64_t count, int64_t most) {
  const auto before = [](const Victim& a, const Victim& b) { return a.order != b.order ? a.order < b.order : a.key < b.key; };
  if (count < std::ssize(*victims)) {
    std::nth_element(victims->begin(), victims->begin() + count, victims->end(), before);
    victims->resize(count);
  }
  std::sort(victims->begin(), victims->end(),
            [&](const Victim& a, const Victim& b) { return a.shard != b.shard ? a.shard < b.shard : before(a, b); });
  std::vector<Piece> pieces;
  for (const Victim& victim : *victims) {
    if (pieces.empty() || pieces.back().front().shard != victim.shard || std::ssize(pieces.back()) == most) {
      pieces.push_back({&victim, 0});
    }
    pieces.back() = {pieces.back().data(), pieces.back().size() + 1};
  }
  return pieces;
}

// Puts a piece's rows below, but for those that are no more as they were when they were chosen.
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
  std::sort(entries.begin(), entries.end());  // as they lie in the shard
  const int64_t count = std::ssize(entries), shard = piece.front().shard;
  std::vector<int64_t> keys(count), changed;
  std::vector<char> records(count * tier_->row_bytes());
  Leaving leaving{std::vector<std::vector<int64_t>>(Index::kShards), std::vector<std::vector<uint32_t>>(Index::kShards)};
  for (int64_t k = 0; k < count; ++k) {
    const uint32_t row = entries[k]->ref.load(std::memory_order_relaxed) - 1;
    keys[k] = entries[k]->key.load(std::memory_order_relaxed);
    if (entries[k]->changed()) changed.push_back(keys[k]);
    leaving.rows[shard].push_back(row);
    tier_->Write(records.data() + k * tier_->row_bytes(), rows.Row(row), rows.Frequency(row),
                 static_cast<uint32_t>(entries[k]->step()));
  }
  rows.ReserveFree(count);
  tier_->ReserveErase(count);
  auto next = entries.begin();
  index.Sift(shard, index.size(shard) - count, [&](const Entry& entry) {
    if (next == entries.end() || &entry != *next) return true;
    ++next;
    return false;
  });
  NotePeak();
  Status status;
  try {
    tier_->changed.insert(changed.begin(), changed.end());
    status = tier_->store().Put(keys.data(), records.data(), count);
  } catch (const std::bad_alloc&) {
    status = OutOfMemory();
  }
  if (!status.ok()) {  // the part of them that a disk too full has taken is below and in memory: it goes from below
    index.Discard();
    for (const int64_t key : changed) tier_->changed.erase(key);
    tier_->Erase(keys);
    return status;
  }
  std::lock_guard alone(gate_);
  Remove(leaving);
  return Status();
}

}  // namespace ctrlab::embedding
