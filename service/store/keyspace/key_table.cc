#include "service/store/keyspace/key_table.h"

#include <utility>

#include "absl/strings/match.h"

namespace tensorkv {
namespace {

// Tables of that capacity are not worth shrinking.
constexpr size_t kMinCapacity = 1024;

}  // namespace

StoredKey* KeyTable::Find(absl::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->get();
}

void KeyTable::Insert(RefPtr<StoredKey> key) {
  Erase(key->name());
  in_order_.insert(key.get());
  by_name_.insert(std::move(key));
}

RefPtr<StoredKey> KeyTable::Erase(absl::string_view name) {
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) return nullptr;
  RefPtr<StoredKey> key = *it;
  in_order_.erase(key.get());
  by_name_.erase(it);
  // A hash table keeps the size it once had; memory must come back.
  if (by_name_.capacity() > kMinCapacity &&
      by_name_.size() < by_name_.capacity() / 8) {
    by_name_.rehash(0);
  }
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
    if (!absl::StartsWith((*it)->name(), prefix)) break;
    keys.push_back(*it);
  }
  return keys;
}

}  // namespace tensorkv
