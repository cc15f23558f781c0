// The keys of a namespace, by name.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_KEY_TABLE_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_KEY_TABLE_H_

#include <cstddef>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "base/ref_counted.h"
#include "service/store/keyspace/stored_key.h"

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
    for (StoredKey* key : in_order_) visitor(*key);
  }

 private:
  // A key stands for its name, so that a table needs one pointer per key.
  struct Name {
    Name(absl::string_view text) : text(text) {}
    Name(const StoredKey* key) : text(key->name()) {}
    Name(const RefPtr<StoredKey>& key) : text(key->name()) {}
    absl::string_view text;
  };
  struct HashOfName {
    using is_transparent = void;
    size_t operator()(Name name) const { return absl::HashOf(name.text); }
  };
  struct SameName {
    using is_transparent = void;
    bool operator()(Name a, Name b) const { return a.text == b.text; }
  };
  struct ByteOrder {
    using is_transparent = void;
    bool operator()(Name a, Name b) const { return a.text < b.text; }
  };

  absl::flat_hash_set<RefPtr<StoredKey>, HashOfName, SameName> by_name_;
  absl::btree_set<StoredKey*, ByteOrder> in_order_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_KEY_TABLE_H_
