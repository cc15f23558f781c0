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
  const auto add = [snapshot](ByRevision& snapshots) {
    snapshots.emplace_hint(snapshots.end(), snapshot->revision, snapshot);
  };
  for (const std::string& prefix : snapshot->prefixes) {
    ByRevision& snapshots = by_prefix_[prefix];
    if (snapshots.empty()) ++lengths_[prefix.size()];
    add(snapshots);
  }
  for (const std::string& key : snapshot->keys) add(by_key_[key]);
}

void PrefixIndex::Remove(const NamedSnapshot* snapshot) {
  // Returns whether the text is gone with it.
  const auto remove = [snapshot](ByText& by_text, const std::string& text) {
    const auto it = by_text.find(text);
    // It may have the prefix twice.
    if (it == by_text.end()) return false;
    it->second.erase(snapshot->revision);
    if (!it->second.empty()) return false;
    by_text.erase(it);
    return true;
  };
  for (const std::string& prefix : snapshot->prefixes) {
    if (!remove(by_prefix_, prefix)) continue;
    const auto length = lengths_.find(prefix.size());
    if (--length->second == 0) lengths_.erase(length);
  }
  for (const std::string& key : snapshot->keys) remove(by_key_, key);
}

NamedSnapshot* PrefixIndex::NewestIn(const ByText& by_text,
                                     absl::string_view text, uint64_t since,
                                     uint64_t until) {
  CountLook();
  const auto it = by_text.find(text);
  if (it == by_text.end()) return nullptr;
  const auto after = it->second.lower_bound(until);
  if (after == it->second.begin()) return nullptr;
  const auto& [revision, snapshot] = *std::prev(after);
  return revision < since ? nullptr : snapshot;
}

NamedSnapshot* PrefixIndex::Newest(absl::string_view name, uint64_t since,
                                   uint64_t until) const {
  const absl::string_view key = WholeKeyOf(name);
  NamedSnapshot* newest =
      by_key_.empty() ? nullptr : NewestIn(by_key_, key, since, until);
  for (const auto& [length, count] : lengths_) {
    if (length > key.size()) break;
    NamedSnapshot* const found =
        NewestIn(by_prefix_, key.substr(0, length), since, until);
    if (found == nullptr) continue;
    if (newest == nullptr || found->revision > newest->revision) {
      newest = found;
    }
  }
  return newest;
}

}  // namespace tensorkv
