#include "service/store/keyspace/entries_by_key.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

bool Takes(DType key, DType contribution) {
  return key == contribution || (IsFloat(key) && IsFloat(contribution));
}

absl::Status CheckEntry(const StoredKey& key, const PushEntry& entry) {
  if (entry.skip ||
      (Takes(key.dtype(), entry.dtype()) && key.HasShape(entry.shape()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("key ", Quoted(entry.key), ": expected ",
                   Description(key.dtype(), key.shape()), ", got ",
                   Description(entry.dtype(), entry.shape())));
}

}  // namespace

absl::StatusOr<EntriesByKey> EntriesByKey::Create(const NamespaceState& state,
                                                  const PushRequest& request) {
  EntriesByKey entries;
  entries.room_bytes_ = state.memory.NoBytes();
  RETURN_IF_ERROR(entries.FindKeys(state, request.entries));
  const absl::Status status = entries.Group(*state.mode, request);
  for (const KeyOfEntry& entry : entries.keys_) entry.key->position_in_call = 0;
  RETURN_IF_ERROR(status);
  return entries;
}

absl::Status EntriesByKey::FindKeys(const NamespaceState& state,
                                    absl::Span<const PushEntry> entries) {
  keys_.reserve(entries.size());
  for (const PushEntry& entry : entries) {
    StoredKey* const key = state.keys.Find(entry.key);
    if (key == nullptr) return state.NoSuchKey(entry.key);
    __builtin_prefetch(key->value.get());
    keys_.push_back({.key = key});
  }
  return absl::OkStatus();
}

absl::Status EntriesByKey::Group(const PushMode& mode,
                                 const PushRequest& request) {
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    StoredKey& key = *keys_[i].key;
    RETURN_IF_ERROR(CheckEntry(key, request.entries[i]));
    const uint32_t last = key.position_in_call;
    key.position_in_call = i + 1;
    value_bytes_ += key.value_bytes();
    if (last > 0) {
      keys_[last - 1].next = i;
    } else {
      RETURN_IF_ERROR(AddFirst(mode, request, i));
    }
  }
  return absl::OkStatus();
}

absl::Status EntriesByKey::AddFirst(const PushMode& mode,
                                    const PushRequest& request,
                                    uint32_t position) {
  KeyOfEntry& first = keys_[position];
  first.is_first = true;
  ASSIGN_OR_RETURN(const std::optional<PushResult> repeat,
                   mode.CheckKey(*first.key, request));
  if (repeat) {
    first.is_repeat = true;
    repeats_.emplace_back(position, *repeat);
    return absl::OkStatus();
  }
  if (mode.NeedsRoom(*first.key, request)) {
    room_bytes_[first.key->device] += first.key->value_bytes();
  }
  note_bytes_ += mode.BytesToNote(*first.key, request);
  return absl::OkStatus();
}

}  // namespace tensorkv
