#include "service/store/keyspace/snapshots/list_at.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "contract/slices.h"
#include "service/store/keyspace/pull/pull_cast.h"
#include "service/store/keyspace/snapshots/named_values.h"
#include "service/store/keyspace/snapshots/snapshot_parts.h"
#include "service/store/looks.h"

namespace tensorkv {
namespace {

// Returns what readers of the snapshot get.
KeyMetadata MetadataOf(const NamedSnapshot& snapshot, absl::string_view key,
                       const Tensor& value, Version version) {
  const DType dtype = CastOf(snapshot.dtype, value.dtype());
  return {.name = std::string(key),
          .dtype = dtype,
          .shape = value.shape(),
          .version = version,
          .value_bytes = value.num_elements() * SizeOf(dtype)};
}

// Adds what there was, in the snapshot, of the next `num_names` names after
// `after` that begin with `prefix`; takes from that number those that there
// are. Returns the last name; nothing if these were all.
std::string AddNext(const NamespaceState& state, const NamedSnapshot& snapshot,
                    absl::string_view prefix, absl::string_view after,
                    size_t& num_names, std::vector<KeyMetadata>& keys) {
  const std::vector<StoredKey*> present =
      state.keys.List(prefix, after, num_names);
  // Both lists are whole up to the end of the one that ends first.
  std::string end;
  const std::vector<const FormerValue*> former = state.named->former().List(
      prefix, after, snapshot.revision, num_names, &end);
  if (present.size() == num_names) {
    const absl::string_view last_present = present.back()->name();
    if (end.empty() || last_present < end) end = std::string(last_present);
  }
  const auto add = [&](absl::string_view key, const Tensor& value,
                       Version version) {
    if (end.empty() || key <= end) {
      keys.push_back(MetadataOf(snapshot, key, value, version));
    }
  };
  for (const StoredKey* key : present) {
    CountLook();
    if (key->revision > snapshot.revision) continue;
    add(key->name(), key->ToTensor(), key->version);
  }
  for (const FormerValue* each : former) {
    add(each->key, each->value, each->version);
  }
  num_names -= std::min(num_names - 1, present.size() + former.size());
  return end;
}

// Adds what a snapshot that is made of parts has of the next names after
// `*last` that begin with `prefix`, and that are or were those of keys. Sets
// `*last` to the last name; clears it if these were all.
void AddOfParts(const NamespaceState& state, const NamedSnapshot& snapshot,
                absl::string_view prefix, std::string* last,
                std::vector<KeyMetadata>& keys) {
  std::string end;
  const FormerValues& former = state.named->former();
  std::vector<std::string> names =
      former.Names(prefix, *last, kKeysPerLock, &end);
  const std::vector<StoredKey*> present =
      state.keys.List(prefix, *last, kKeysPerLock);
  for (const StoredKey* key : present) names.emplace_back(key->name());
  if (present.size() == kKeysPerLock) {
    const absl::string_view last_present = present.back()->name();
    if (end.empty() || last_present < end) end = std::string(last_present);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const std::string& name : names) {
    if (!end.empty() && name > end) break;
    if (!HasKey(state, snapshot, name)) continue;
    absl::StatusOr<KeyMetadata> key = MetadataAt(state, snapshot, name);
    if (key.ok()) keys.push_back(*std::move(key));
  }
  *last = std::move(end);
}

}  // namespace

absl::StatusOr<KeyMetadata> MetadataAt(const NamespaceState& state,
                                       const NamedSnapshot& snapshot,
                                       const std::string& key) {
  ASSIGN_OR_RETURN(const ValueOfSnapshot value, ValueAt(state, snapshot, key));
  return MetadataOf(snapshot, key, value.tensor, value.version);
}

std::vector<KeyMetadata> ListAt(const NamespaceState& state,
                                const NamedSnapshot& snapshot,
                                absl::string_view prefix, std::string* last) {
  std::vector<KeyMetadata> keys;
  if (IsOfParts(snapshot)) {
    AddOfParts(state, snapshot, prefix, last, keys);
    return keys;
  }
  size_t num_names = kKeysPerLock;
  std::string end;
  std::optional<absl::string_view> before;
  std::vector<absl::string_view> parts(snapshot.prefixes.begin(),
                                       snapshot.prefixes.end());
  // Slices come after all other keys, whatever keys they are of.
  const bool has_all = parts.front().empty();
  if (!has_all) parts.push_back(kSliceMark);
  for (const absl::string_view each : parts) {
    if (!absl::StartsWith(each, prefix) && !absl::StartsWith(prefix, each)) {
      continue;
    }
    const absl::string_view longer = std::max(each, prefix);
    const bool is_over = *last > longer && !absl::StartsWith(*last, longer);
    if (is_over || (before && absl::StartsWith(longer, *before))) continue;
    before = longer;
    end = AddNext(state, snapshot, longer, *last, num_names, keys);
    if (!end.empty()) break;
  }
  *last = std::move(end);
  if (!has_all || snapshot.owned != nullptr) {
    std::erase_if(keys, [&](const KeyMetadata& key) {
      return !HasKey(state, snapshot, key.name);
    });
  }
  std::sort(keys.begin(), keys.end(),
            [](const KeyMetadata& a, const KeyMetadata& b) {
              return a.name < b.name;
            });
  return keys;
}

}  // namespace tensorkv
