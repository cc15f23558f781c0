// Finds the snapshots that have a key, by the prefixes of their keys, or by
// their keys.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_PREFIX_INDEX_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_PREFIX_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

struct NamedSnapshot;

// The prefixes of snapshots, and the keys of those that name them one by one.
// Guarded by the namespace's mutex.
//
// A key is looked up by itself, and once for each length that prefixes have, of
// which there are few: so what it costs does not grow with the number of
// snapshots.
class PrefixIndex {
 public:
  // Bounds the lengths of all prefixes together.
  static constexpr size_t kMaxLengths = 32;

  // Returns whether prefixes of no more lengths would be there with these.
  bool HasRoomFor(const std::vector<std::string>& prefixes) const;
  void Add(NamedSnapshot* snapshot);
  void Remove(const NamedSnapshot* snapshot);

  // Returns the newest snapshot of those with revisions in [since, until) that
  // have keys of that name; null if there is none.
  NamedSnapshot* Newest(absl::string_view name, uint64_t since,
                        uint64_t until) const;

 private:
  using ByRevision = std::map<uint64_t, NamedSnapshot*>;
  using ByText = absl::flat_hash_map<std::string, ByRevision>;

  // Returns the newest with that key, or prefix, and a revision in [since,
  // until); null if there is none.
  static NamedSnapshot* NewestIn(const ByText& by_text, absl::string_view text,
                                 uint64_t since, uint64_t until);

  ByText by_prefix_;
  ByText by_key_;
  // Counts the prefixes of each length.
  std::map<size_t, size_t> lengths_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_PREFIX_INDEX_H_
