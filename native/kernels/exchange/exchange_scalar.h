// The scalar twin of exchange.h: the definition, with maps.

#pragma once

#include <map>
#include <vector>

#include "kernels/exchange/exchange.h"
#include "store/hash.h"

namespace ctrlab::scalar {

inline int64_t OwnerOf(int64_t key, int64_t workers, bool grows) {
  return grows ? static_cast<int64_t>(embedding::HashKey(key) % static_cast<uint64_t>(workers)) : key % workers;
}

inline void AskedKeys(const AskedColumn* columns, int64_t column_count, int64_t tables, int64_t workers, bool grows,
                      ctrlab::AskedKeys* asked) {
  asked->count = 0;
  for (int64_t owner = 0; owner < workers; ++owner) {
    for (int64_t table = 0; table < tables; ++table) {
      const int64_t first = asked->count;
      std::map<int64_t, int64_t> place_of;
      for (int64_t c = 0; c < column_count; ++c) {
        const AskedColumn& column = columns[c];
        if (column.table != table) continue;
        for (int64_t i = 0; i < column.count; ++i) {
          const int64_t id = column.ids[i];
          if (!grows && id < 0) {
            column.places[i] = -1;
            continue;
          }
          if (OwnerOf(id, workers, grows) != owner) continue;
          const auto [found, is_new] = place_of.try_emplace(id, asked->count);
          if (is_new) {
            asked->keys[asked->count] = grows ? id : id / workers;
            asked->times[asked->count++] = 0;
          }
          ++asked->times[found->second];
          column.places[i] = found->second;
        }
      }
      asked->counts[owner * tables + table] = static_cast<int32_t>(asked->count - first);
    }
  }
}

}  // namespace ctrlab::scalar
