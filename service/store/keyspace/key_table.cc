#include "service/store/keyspace/key_table.h"

#include <utility>

#include "absl/strings/match.h"
#include "service/store/looks.h"

namespace tensorkv {
namespace {

// Tables of that capacity are not worth shrinking.
constexpr size_t kMinCapacity = 1024;

}  // namespace

StoredKey* KeyTable::Find(absl::string_view name) const {
  CountLook();
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->key.get();
}

StoredKey* KeyTable::Find(absl::string_view name, size_t hash) const {
  CountLook();
  const auto it = by_name_.find(name, hash);
  return it == by_name_.end() ? nullptr : it->key.get();
}

KeyTable::Finder::Finder(const KeyTable& table, size_t num_names)
    : table_(table), num_names_(num_names) {}

// The first name tells which order the call follows, if any.
StoredKey* KeyTable::Finder::Search(absl::string_view name) {
  StoredKey* const key = table_.Find(name);
  if (num_names_ < kMinOrder || key == nullptr) return key;
  if (position_ == 0 && !is_new_) {
    for (const std::vector<StoredKey*>& order : table_.orders_) {
      if (order.front() != key || order.size() < num_names_) continue;
      known_ = order;
      position_ = 1;
      return key;
    }
  }
  if (!is_new_) {
    is_new_ = true;
    found_.reserve(num_names_);
    found_.assign(known_.begin(), known_.begin() + position_);
    known_ = {};
  }
  found_.push_back(key);
  return key;
}

KeyTable::Finder::~Finder() {
  if (found_.size() == num_names_ && is_new_) {
    table_.Remember(std::move(found_));
  }
}

void KeyTable::Remember(std::vector<StoredKey*> order) const {
  if (order.size() > size()) return;  // it has keys twice
  std::erase_if(orders_, [&order](const std::vector<StoredKey*>& other) {
    return other.front() == order.front();
  });
  size_t total = order.size();
  for (const std::vector<StoredKey*>& other : orders_) total += other.size();
  while (!orders_.empty() && (total > size() || orders_.size() == kMaxOrders)) {
    total -= orders_.front().size();
    orders_.erase(orders_.begin());
  }
  orders_.push_back(std::move(order));
}

namespace {

uint64_t ValueBytesOf(const StoredKey& key) {
  return key.num_elements() * SizeOf(key.dtype());
}

}  // namespace

void KeyTable::Insert(const RefPtr<StoredKey>& key, size_t hash) {
  const HashedKey hashed = {key, hash};
  if (!by_name_.insert(hashed).second) {
    Erase(key->name());
    by_name_.insert(hashed);
  }
  in_order_.insert(in_order_.end(), key.get());
  value_bytes_ += ValueBytesOf(*key);
}

RefPtr<StoredKey> KeyTable::Erase(absl::string_view name) {
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) return nullptr;
  orders_.clear();
  RefPtr<StoredKey> key = it->key;
  in_order_.erase(key.get());
  by_name_.erase(it);
  value_bytes_ -= ValueBytesOf(*key);
  if (key->is_updating) erased_.push_back(key);
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
