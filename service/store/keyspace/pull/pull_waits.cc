// What a pull does while it waits: it watches its keys, keeps their values
// readable, and says what is missing.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/pull/pull_call.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Bounds how many missing things an error names: statuses travel in HTTP/2
// headers, which are small.
constexpr size_t kMostMissingNamed = 8;

}  // namespace

bool PullCall::WatchMore() {
  has_answer_ = num_looks_ == 0 && CanEnd();
  if (has_answer_ || !Watches()) return false;
  if (absl::Status status = WatchNext(); !status.ok()) {
    answer_ = std::move(status);
    has_answer_ = true;
    return false;
  }
  return num_watched_ < request_.entries.size();
}

absl::StatusOr<bool> PullCall::WaitsForNext() {
  const std::vector<PullEntry>& entries = request_.entries;
  for (size_t i = position_; i < entries.size(); ++i) {
    const StoredKey* key = state_.keys.Find(entries[i].key);
    const bool is_reached = IsReached(key, entries[i]);
    // A key that is pinned has at most the update that was under way then.
    if (is_reached && (pinned_.empty() || !key->value_is_changing)) continue;
    if (!is_reached) Unpin();
    RETURN_IF_ERROR(WaitFor(i, key));
    return true;
  }
  return false;
}

absl::Status PullCall::WaitFor(size_t position, const StoredKey* key) {
  position_ = position;
  if (key != nullptr) RETURN_IF_ERROR(CheckNobodyLeft(*key));
  if (key == nullptr && !request_.wait_for_keys) {
    return state_.NoSuchKey(request_.entries[position].key);
  }
  // A wait that cannot end well does not begin.
  return num_watched_ == 0 && Watches() ? WatchNext() : absl::OkStatus();
}

absl::Status PullCall::WatchNext() {
  const std::vector<PullEntry>& entries = request_.entries;
  watches_.reserve(entries.size());  // they must stay where they are
  const size_t end = std::min(num_watched_ + kKeysPerLock, entries.size());
  while (num_watched_ < end) {
    const std::string& name = entries[num_watched_++].key;
    const StoredKey* key = state_.keys.Find(name);
    if (request_.wait_for_keys) {
      if (key == nullptr || !MustWait(*key)) continue;
    } else if (key == nullptr) {
      return state_.NoSuchKey(name);
    }
    RETURN_IF_ERROR(CheckNobodyLeft(*key));
    watches_.push_back({.key = key, .call = this});
    state_.watches.Add(&watches_.back());
  }
  return absl::OkStatus();
}

void PullCall::UnwatchNext() {
  for (size_t i = 0; i < kKeysPerLock && !watches_.empty(); ++i) {
    KeyWatches::Watch& watch = watches_.back();
    if (watch.key != nullptr) state_.watches.Remove(&watch);
    watches_.pop_back();
  }
}

void PullCall::Pin() {
  if (!pinned_.empty()) return;
  pinned_.reserve(request_.entries.size());
  for (const PullEntry& entry : request_.entries) {
    StoredKey* key = state_.keys.Find(entry.key);
    ++key->num_pulls_pinning;
    pinned_.emplace_back(key);
  }
}

void PullCall::Unpin() {
  for (KeyPtr& key : pinned_) {
    --key->num_pulls_pinning;
    // It was deleted, and nobody else has it.
    if (key->IsUnique()) state_.keys.DeferDestruction(std::move(key));
  }
  pinned_.clear();
}

// The keys themselves go without the mutex, in Send, and so do the watches of
// large calls.
void PullCall::Finish() {
  for (const KeyPtr& key : pinned_) --key->num_pulls_pinning;
  UnwatchNext();
}

WaitReason PullCall::ReasonToWait(const PullEntry& entry) const {
  const StoredKey* key = state_.keys.Find(entry.key);
  if (key == nullptr) return WaitReason::kKey;
  if (MustWait(*key)) return WaitReason::kRound;
  return key->version < entry.min_version ? WaitReason::kVersion
                                          : WaitReason::kUpdate;
}

absl::Status PullCall::Missing(const PullEntry& entry) const {
  const StoredKey* key = state_.keys.Find(entry.key);
  const auto missing = [&entry](absl::string_view problem) {
    return absl::DeadlineExceededError(
        absl::StrCat("key ", Quoted(entry.key), problem));
  };
  switch (ReasonToWait(entry)) {
    case WaitReason::kRound:
      return state_.mode->DescribeWait(*key, request_.worker->rank,
                                       state_.Now());
    case WaitReason::kKey:
      return WithReason(missing(" does not exist yet"), Reason::kWaitEnded,
                        {{"key", entry.key}});
    case WaitReason::kVersion:
      return WithReason(
          missing(absl::StrCat(": expected version ", entry.min_version,
                               ", got ", key->version)),
          Reason::kWaitEnded,
          {{"key", entry.key}, {"version", entry.min_version}});
    default:
      return WithReason(missing(": its update is under way"),
                        Reason::kWaitEnded, {{"key", entry.key}});
  }
}

// Looks at some of many keys only, from the one that is waited for.
absl::Status PullCall::Missing() const {
  if (awaited_step > 0)
    return state_.mode->DescribeAwaited(awaited_step, state_.Now());
  std::vector<absl::Status> missing;
  size_t num_missing = 0;
  const size_t num_entries = request_.entries.size();
  const size_t begin = is_large() ? position_ : 0;
  const size_t end = std::min(begin + kKeysPerLock, num_entries);
  for (size_t i = begin; i < end; ++i) {
    const PullEntry& entry = request_.entries[i];
    const StoredKey* key = state_.keys.Find(entry.key);
    if (IsReached(key, entry) && !key->value_is_changing) continue;
    if (++num_missing <= kMostMissingNamed) missing.push_back(Missing(entry));
  }
  if (num_missing == 0) return Missing(request_.entries[position_]);
  std::string text = absl::StrJoin(
      missing, "; ", [](std::string* out, const absl::Status& each) {
        absl::StrAppend(out, each.message());
      });
  if (num_missing > missing.size()) {
    absl::StrAppend(&text, "; and ", num_missing - missing.size(), " more");
  }
  if (end < num_entries) {
    absl::StrAppend(&text, "; the last ", num_entries - end,
                    " keys were not looked at");
  }
  return WithMessage(missing[0], text);
}

}  // namespace tensorkv
