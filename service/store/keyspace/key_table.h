// The keys of a namespace, by name.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_KEY_TABLE_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_KEY_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "service/store/keyspace/stored_key.h"

namespace tensorkv {

// Finds a key in constant time and lists keys in byte order. Not thread-safe.
class KeyTable {
 public:
  // Returns null if there is no such key. The pointer is good until the key is
  // erased or replaced; a RefPtr keeps it longer.
  StoredKey* Find(absl::string_view name) const;
  // Finds a key by a hash that HashOf has given: who looks for many long names
  // takes that before he locks the table.
  StoredKey* Find(absl::string_view name, size_t hash) const;
  static size_t HashOf(absl::string_view name) { return HashOfName()(name); }

  // Finds the keys of one call, one after another. Calls over many keys name
  // them again and again in one order: where a call follows an earlier one, its
  // keys are known before their names are looked at, and need no search.
  //
  // Used while the table does not change. `num_names` is how many names the
  // call has.
  class Finder {
   public:
    Finder(const KeyTable& table, size_t num_names);
    // Keeps the order of this call, if it was a new one.
    ~Finder();
    Finder(const Finder&) = delete;

    // Finds a key as KeyTable::Find does.
    StoredKey* Find(absl::string_view name) {
      if (position_ < known_.size()) {
        StoredKey* const key = known_[position_];
        if (position_ + kAhead < known_.size()) Fetch(position_ + kAhead);
        if (IsNamed(*key, name)) {
          ++position_;
          return key;
        }
      }
      return Search(name);
    }

   private:
    // Says how far ahead keys, and half as far their buffers, are fetched.
    static constexpr size_t kAhead = 8;

    // Has the processor fetch a key that will be looked at soon.
    void Fetch(size_t position) const {
      const auto* key = reinterpret_cast<const char*>(known_[position]);
      __builtin_prefetch(key);
      __builtin_prefetch(key + 64);
      __builtin_prefetch(known_[position - kAhead / 2]->value.get());
    }
    // Returns a comparison that stays a part of the loops over large calls.
    static bool IsNamed(const StoredKey& key, absl::string_view name) {
      const absl::string_view its = key.name();
      return its.size() == name.size() &&
             std::memcmp(its.data(), name.data(), name.size()) == 0;
    }
    // Finds a key that is not the next one of the known order.
    StoredKey* Search(absl::string_view name);

    const KeyTable& table_;
    const size_t num_names_;
    // The order that the call has followed so far.
    absl::Span<StoredKey* const> known_;
    size_t position_ = 0;
    // The keys of this call, from the first that did not follow a known order.
    bool is_new_ = false;
    std::vector<StoredKey*> found_;
  };

  // Adds a key, in the place of one with its name. Keys that come in byte order
  // need no search for their places.
  void Insert(const RefPtr<StoredKey>& key) {
    Insert(key, HashOf(key->name()));
  }
  // Adds a key as Insert does, by the HashOf of its name.
  void Insert(const RefPtr<StoredKey>& key, size_t hash);
  // Reserves memory for so many keys.
  void Reserve(size_t num_keys) { by_name_.reserve(num_keys); }

  // Removes a key and returns it; null if there is none. One that is_updating
  // stays alive until ReleaseErased finds it idle: so updates of many keys need
  // not count as many references.
  RefPtr<StoredKey> Erase(absl::string_view name);
  // Keeps a reference to a key, perhaps the last one, so that the key is not
  // destroyed under a mutex: ReleaseErased hands it out.
  void DeferDestruction(RefPtr<StoredKey> key) {
    erased_.push_back(std::move(key));
    may_release_ = true;
  }
  // Has the next ReleaseErased look at the keys that were erased: an update has
  // ended.
  void RecordEndedUpdate() { may_release_ = !erased_.empty(); }
  // Hands the erased keys that are idle now to `drop`. Looks at none unless an
  // update has ended since the last time: who calls it does so often.
  template <typename Drop>
  void ReleaseErased(Drop drop) {
    if (!std::exchange(may_release_, false)) return;
    const auto begin = std::partition(
        erased_.begin(), erased_.end(),
        [](const RefPtr<StoredKey>& key) { return key->is_updating; });
    std::for_each(std::move_iterator(begin), std::move_iterator(erased_.end()),
                  drop);
    erased_.erase(begin, erased_.end());
  }

  // Returns, in byte order, up to `limit` keys whose names begin with `prefix`
  // and come after `after`.
  std::vector<StoredKey*> List(absl::string_view prefix,
                               absl::string_view after, size_t limit) const;

  size_t size() const { return by_name_.size(); }
  // Returns the bytes of the values of all keys.
  uint64_t value_bytes() const { return value_bytes_; }

  // Calls `visitor` with every key, in byte order.
  template <typename Visitor>
  void ForEach(Visitor visitor) const {
    for (StoredKey* key : in_order_) visitor(*key);
  }

 private:
  // Keeps the keys of a call, in their order, for later Finders.
  void Remember(std::vector<StoredKey*> order) const;

  // A key stands for its name, so that a table needs no copy of that. Its hash
  // is kept: a table that grows, while all wait for it, need not read the names
  // of all keys.
  struct HashedKey {
    RefPtr<StoredKey> key;
    size_t hash;
  };
  // The name of a key, for comparisons of keys and names.
  struct Name {
    Name(absl::string_view text) : text(text) {}
    Name(const StoredKey* key) : text(key->name()) {}
    Name(const HashedKey& key) : text(key.key->name()) {}
    absl::string_view text;
  };
  struct HashOfName {
    using is_transparent = void;
    size_t operator()(const HashedKey& key) const { return key.hash; }
    size_t operator()(absl::string_view name) const {
      return absl::HashOf(name);
    }
  };
  struct SameName {
    using is_transparent = void;
    bool operator()(Name a, Name b) const { return a.text == b.text; }
  };
  struct ByteOrder {
    using is_transparent = void;
    bool operator()(Name a, Name b) const { return a.text < b.text; }
  };

  // How many keys make an order worth knowing, and how many orders are known at
  // a time.
  static constexpr size_t kMinOrder = 64;
  static constexpr size_t kMaxOrders = 4;

  absl::flat_hash_set<HashedKey, HashOfName, SameName> by_name_;
  absl::btree_set<StoredKey*, ByteOrder> in_order_;
  // The keys that were erased while an update of them ran, or released.
  std::vector<RefPtr<StoredKey>> erased_;
  uint64_t value_bytes_ = 0;
  // True if one of them may be idle.
  bool may_release_ = false;
  // The keys of recent calls in the order of their names there, the latest
  // last; together no more than there are keys. All go when a key goes.
  mutable std::vector<std::vector<StoredKey*>> orders_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_KEY_TABLE_H_
