#include "service/store/keyspace/snapshots/former_values.h"

#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "service/store/looks.h"

namespace tensorkv {
namespace {

// Counts a value's object and its places in maps and lists, with what the
// allocator adds.
constexpr uint64_t kFormerValueBytes = sizeof(FormerValue) + 160;
// Bounds the values that are looked at for one version.
constexpr int kMaxVersionsSeen = 8;

}  // namespace

FormerValues::Iterator FormerValues::Add(FormerValuePtr value,
                                         const RefPtr<BudgetAccount>& account) {
  value_bytes_ += value->bytes;
  const Id id = {value->key, value->since};
  // The account has no bound.
  Reservation overhead =
      *Reservation::Create(account, kFormerValueBytes + value->key.capacity());
  return values_.emplace(id, Kept{std::move(value), std::move(overhead)}).first;
}

bool FormerValues::TryExtend(absl::string_view key, uint64_t since,
                             uint64_t until, const Buffer* value) {
  const auto after = values_.lower_bound({key, until});
  if (after == values_.begin()) return false;
  FormerValue& last = *std::prev(after)->second.value;
  if (last.key != key || last.until != since ||
      last.value.buffer().get() != value) {
    return false;
  }
  last.until = until;
  return true;
}

FormerValues::Node FormerValues::Remove(Iterator value) {
  FormerValue& removed = *value->second.value;
  value_bytes_ -= removed.bytes;
  removed.is_wanted = false;
  return values_.extract(value);
}

void FormerValues::Await(FormerValue& value) {
  value.is_awaited = true;
  awaited_.insert(value.since);
}

void FormerValues::Take(FormerValue& value, Tensor tensor, Version version) {
  if (std::exchange(value.is_awaited, false)) {
    awaited_.erase(awaited_.find(value.since));
  }
  if (!value.is_wanted) return;
  value.value = std::move(tensor);
  value.version = version;
}

const FormerValue* FormerValues::Find(absl::string_view key,
                                      uint64_t revision) const {
  CountLook();
  const auto after = values_.upper_bound({key, revision});
  if (after == values_.begin()) return nullptr;
  const FormerValue& found = *std::prev(after)->second.value;
  return found.key == key && revision < found.until ? &found : nullptr;
}

const FormerValue* FormerValues::FindVersion(absl::string_view key,
                                             Version version,
                                             uint64_t revision) const {
  auto it = values_.upper_bound({key, revision});
  for (int i = 0; i < kMaxVersionsSeen && it != values_.begin(); ++i) {
    CountLook();
    const FormerValue& seen = *(--it)->second.value;
    if (seen.key != key) return nullptr;
    if (!seen.value.has_data() || seen.version > version) continue;
    return seen.version == version ? &seen : nullptr;
  }
  return nullptr;
}

std::vector<const FormerValue*> FormerValues::List(absl::string_view prefix,
                                                   absl::string_view after,
                                                   uint64_t revision,
                                                   size_t max_names,
                                                   std::string* last) const {
  std::vector<const FormerValue*> found;
  auto it = after < prefix ? values_.lower_bound({prefix, 0})
                           : values_.upper_bound({after, UINT64_MAX});
  for (size_t i = 0; i < max_names; ++i) {
    if (it == values_.end()) return found;
    const absl::string_view key = it->first.key;
    if (!absl::StartsWith(key, prefix)) return found;
    const FormerValue* const value = Find(key, revision);
    if (value != nullptr) found.push_back(value);
    if (i + 1 == max_names) *last = std::string(key);
    it = values_.upper_bound({key, UINT64_MAX});
  }
  return found;
}

std::vector<std::string> FormerValues::Names(absl::string_view prefix,
                                             absl::string_view after,
                                             size_t max_names,
                                             std::string* last) const {
  std::vector<std::string> names;
  auto it = after < prefix ? values_.lower_bound({prefix, 0})
                           : values_.upper_bound({after, UINT64_MAX});
  while (it != values_.end() && absl::StartsWith(it->first.key, prefix) &&
         names.size() < max_names) {
    CountLook();
    names.emplace_back(it->first.key);
    it = values_.upper_bound({it->first.key, UINT64_MAX});
  }
  if (names.size() == max_names) *last = names.back();
  return names;
}

}  // namespace tensorkv
