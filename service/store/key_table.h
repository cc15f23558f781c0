// The keys of a namespace, by name.

#ifndef TENSORKV_SERVICE_STORE_KEY_TABLE_H_
#define TENSORKV_SERVICE_STORE_KEY_TABLE_H_

#include <cstddef>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "base/ref_counted.h"
#include "service/store/stored_key.h"

namespace tensorkv {

// Finds a key in constant time and lists keys in byte order. Not thread-safe.
class KeyTable {
 public:
  // Null if there is no such key. The pointer is good until the key is erased
  // or replaced; a RefPtr keeps it longer.
  StoredKey* Find(absl::string_view name) const;

  // Adds a key, in the place of one with its name.
  void Insert(RefPtr<StoredKey> key);

  // Removes a key and returns it; null if there is none.
  RefPtr<StoredKey> Erase(absl::string_view name);

  // Up to `limit` keys that begin with `prefix` and come after `after`.
  std::vector<StoredKey*> List(absl::string_view prefix,
                               absl::string_view after, size_t limit) const;

  size_t size() const { return by_name_.size(); }

  // Every key, in byte order.
  template <typename Visitor>
  void ForEach(Visitor visitor) const {
    for (const auto& [name, key] : in_order_) visitor(*key);
  }

 private:
  // Both views are into StoredKey::name.
  absl::flat_hash_map<absl::string_view, RefPtr<StoredKey>> by_name_;
  absl::btree_map<absl::string_view, StoredKey*> in_order_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEY_TABLE_H_
