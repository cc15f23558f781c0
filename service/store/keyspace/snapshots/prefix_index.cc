#include "service/store/keyspace/snapshots/prefix_index.h"

#include <iterator>
#include <set>

#include "contract/slices.h"
#include "service/store/keyspace/snapshots/named_snapshot.h"
#include "service/store/looks.h"

namespace tensorkv {

bool PrefixIndex::HasRoomFor(const std::vector<std::string>& prefixes) const {
  std::set<size_t> added;
  for (const std::string& prefix : prefixes) {
    if (!lengths_.contains(prefix.size())) added.insert(prefix.size());
  }
  return lengths_.size() + added.size() <= kMaxLengths;
}

void PrefixIndex::Add(NamedSnapshot* snapshot) {
  for (const std::string& prefix : snapshot->prefixes) {
    ByRevision& snapshots = by_prefix_[prefix];
    if (snapshots.empty()) ++lengths_[prefix.size()];
    snapshots.emplace_hint(snapshots.end(), snapshot->revision, snapshot);
  }
}

void PrefixIndex::Remove(const NamedSnapshot* snapshot) {
  for (const std::string& prefix : snapshot->prefixes) {
    const auto it = by_prefix_.find(prefix);
    // It may have the prefix twice.
    if (it == by_prefix_.end()) continue;
    it->second.erase(snapshot->revision);
    if (!it->second.empty()) continue;
    by_prefix_.erase(it);
    const auto length = lengths_.find(prefix.size());
    if (--length->second == 0) lengths_.erase(length);
  }
}

NamedSnapshot* PrefixIndex::Newest(absl::string_view name, uint64_t since,
                                   uint64_t until) const {
  const absl::string_view key = WholeKeyOf(name);
  NamedSnapshot* newest = nullptr;
  for (const auto& [length, count] : lengths_) {
    if (length > key.size()) break;
    CountLook();
    const auto it = by_prefix_.find(key.substr(0, length));
    if (it == by_prefix_.end()) continue;
    const auto after = it->second.lower_bound(until);
    if (after == it->second.begin()) continue;
    const auto& [revision, snapshot] = *std::prev(after);
    if (revision < since) continue;
    if (newest == nullptr || revision > newest->revision) newest = snapshot;
  }
  return newest;
}

}  // namespace tensorkv
