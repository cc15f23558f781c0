#include "service/store/key_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"

namespace tensorkv {

StoredKey* KeyTable::Find(absl::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second.get();
}

void KeyTable::Insert(RefPtr<StoredKey> key) {
  Erase(key->name);
  StoredKey* const raw = key.get();
  by_name_.emplace(raw->name, std::move(key));
  in_order_.emplace(raw->name, raw);
}

RefPtr<StoredKey> KeyTable::Erase(absl::string_view name) {
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) return nullptr;
  RefPtr<StoredKey> key = it->second;  // keeps the name that both maps view
  in_order_.erase(key->name);
  by_name_.erase(it);
  return key;
}

std::vector<StoredKey*> KeyTable::List(absl::string_view prefix,
                                       absl::string_view after,
                                       size_t limit) const {
  std::vector<StoredKey*> keys;
  auto it = after < prefix ? in_order_.lower_bound(prefix)
                           : in_order_.upper_bound(after);
  // An empty key does not exist, so an empty `after` passes over nothing.
  for (; it != in_order_.end() && keys.size() < limit; ++it) {
    if (!absl::StartsWith(it->first, prefix)) break;
    keys.push_back(it->second);
  }
  return keys;
}

}  // namespace tensorkv
