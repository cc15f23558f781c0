#include "service/store/keyspace/snapshots/list_at.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "service/store/keyspace/snapshots/named_values.h"

namespace tensorkv {
namespace {

KeyMetadata MetadataOf(absl::string_view key, const Tensor& value,
                       Version version) {
  return {.name = std::string(key),
          .dtype = value.dtype(),
          .shape = value.shape(),
          .version = version,
          .value_bytes = static_cast<uint64_t>(value.size_bytes())};
}

}  // namespace

absl::StatusOr<KeyMetadata> MetadataAt(const NamespaceState& state,
                                       const NamedSnapshot& snapshot,
                                       const std::string& key) {
  const std::optional<ValueOfSnapshot> value = ValueAt(state, snapshot, key);
  if (!value) return state.NoSuchKey(key);
  return MetadataOf(key, value->tensor, value->version);
}

std::vector<KeyMetadata> ListAt(const NamespaceState& state,
                                const NamedSnapshot& snapshot,
                                absl::string_view prefix, std::string* last) {
  const std::string after = *last;
  const std::vector<StoredKey*> present =
      state.keys.List(prefix, after, kKeysPerLock);
  // Both lists are whole up to the end of the one that ends first.
  std::string end;
  const std::vector<const FormerValue*> former = state.named->former().List(
      prefix, after, snapshot.revision, kKeysPerLock, &end);
  if (present.size() == kKeysPerLock) {
    const absl::string_view last_present = present.back()->name();
    if (end.empty() || last_present < end) end = std::string(last_present);
  }
  *last = end;
  std::vector<KeyMetadata> keys;
  const auto add = [&](absl::string_view key, const Tensor& value,
                       Version version) {
    if ((!end.empty() && key > end) || !snapshot.Has(key)) return;
    keys.push_back(MetadataOf(key, value, version));
  };
  for (const StoredKey* key : present) {
    if (key->revision > snapshot.revision) continue;
    add(key->name(), key->ToTensor(), key->version);
  }
  for (const FormerValue* each : former) {
    add(each->key, each->value, each->version);
  }
  std::sort(keys.begin(), keys.end(),
            [](const KeyMetadata& a, const KeyMetadata& b) {
              return a.name < b.name;
            });
  return keys;
}

}  // namespace tensorkv
