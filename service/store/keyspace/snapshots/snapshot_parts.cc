#include "service/store/keyspace/snapshots/snapshot_parts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "contract/slices.h"
#include "service/store/looks.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Bound how long parts wait for each other, where the call says nothing and in
// any case.
constexpr absl::Duration kDefaultWait = absl::Minutes(10);
constexpr absl::Duration kLongestWait = absl::Hours(1);

// Returns the terms without what they have reserved.
SnapshotTerms CopyOf(const SnapshotTerms& terms) {
  SnapshotTerms copy;
  copy.series = terms.series;
  copy.number = terms.number;
  copy.metadata = terms.metadata;
  copy.time_to_live = terms.time_to_live;
  copy.keep_last = terms.keep_last;
  copy.dtype = terms.dtype;
  copy.uid = terms.uid;
  return copy;
}

absl::Status OtherPartHas(absl::string_view subject, absl::string_view text,
                          uint32_t index) {
  return absl::InvalidArgumentError(
      absl::StrCat(subject, " ", Quoted(text),
                   ": expected it in one part of the snapshot, part ", index,
                   " has it, or keys that begin so"));
}

}  // namespace

absl::Duration SnapshotParts::WaitOf(const SnapshotTerms& terms) {
  return terms.time_to_live == absl::InfiniteDuration()
             ? kDefaultWait
             : std::min(terms.time_to_live, kLongestWait);
}

SnapshotParts::SnapshotParts(const SnapshotTerms& first, absl::Duration end)
    : terms_(CopyOf(first)),
      count_(first.part_count),
      has_prefixes_(!first.prefixes.empty()),
      end_(end) {}

absl::Status SnapshotParts::Check(const SnapshotTerms& terms) const {
  if (terms.part_count != count_) {
    return absl::InvalidArgumentError(
        absl::StrCat("part: expected a count of ", count_,
                     ", as other parts have said, got ", terms.part_count));
  }
  if (terms.dtype != terms_.dtype) {
    return absl::InvalidArgumentError(
        "dtype: expected that of the other parts, got another");
  }
  if (terms.prefixes.empty() == has_prefixes_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prefixes: expected ", has_prefixes_ ? "some" : "none",
        ", as the other parts have, got ", has_prefixes_ ? "none" : "some"));
  }
  const NamedSnapshot* const own = Find(terms.part_index);
  RETURN_IF_ERROR(CheckPrefixes(terms.prefixes, own));
  return CheckKeys(terms.keys, own);
}

absl::Status SnapshotParts::CheckNumKeys(size_t num_keys) {
  if (num_keys <= kMostKeys) return absl::OkStatus();
  return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                        "keys of parts without prefixes: expected at most ",
                        kMostKeys, " in all, got ", num_keys)),
                    Reason::kLimitReached, {{"limit", kMostKeys}});
}

absl::Status SnapshotParts::CheckKeys(const std::vector<std::string>& keys,
                                      const NamedSnapshot* own) const {
  if (!has_prefixes_) {
    const size_t num_own = own == nullptr ? 0 : own->keys.size();
    RETURN_IF_ERROR(CheckNumKeys(owners_.size() - num_own + keys.size()));
  }
  for (const std::string& key : keys) {
    const auto it = owners_.find(key);
    if (it == owners_.end() || it->second == own) continue;
    return OtherPartHas("key", key, it->second->part_index);
  }
  return absl::OkStatus();
}

absl::Status SnapshotParts::CheckPrefixes(
    const std::vector<std::string>& prefixes, const NamedSnapshot* own) const {
  for (const std::string& prefix : prefixes) {
    const NamedSnapshot* const shorter = OwnerOfPrefix(prefix);
    if (shorter != nullptr && shorter != own) {
      return OtherPartHas("prefix", prefix, shorter->part_index);
    }
    for (auto it = owners_.lower_bound(prefix);
         it != owners_.end() && absl::StartsWith(it->first, prefix); ++it) {
      if (it->second == own) continue;
      return OtherPartHas("prefix", prefix, it->second->part_index);
    }
  }
  return absl::OkStatus();
}

void SnapshotParts::Add(uint32_t index, NamedSnapshot& part) {
  part.part_index = index;
  parts_[index] = &part;
  for (const std::string& key : part.keys) owners_[key] = &part;
  for (const std::string& prefix : part.prefixes) {
    if (OwnerOfPrefix(prefix) != nullptr) continue;
    // It stands for longer ones.
    for (auto it = owners_.lower_bound(prefix);
         it != owners_.end() && absl::StartsWith(it->first, prefix);) {
      it = owners_.erase(it);
    }
    owners_[prefix] = &part;
  }
}

void SnapshotParts::Remove(const NamedSnapshot& part) {
  const auto remove = [&](absl::string_view text) {
    const auto it = owners_.find(text);
    if (it != owners_.end() && it->second == &part) owners_.erase(it);
  };
  for (const std::string& key : part.keys) remove(key);
  for (const std::string& prefix : part.prefixes) remove(prefix);
  if (part.is_ready) --num_ready_;
  parts_.erase(part.part_index);
}

std::vector<NamedSnapshot*> SnapshotParts::RemoveAll() {
  std::vector<NamedSnapshot*> all;
  all.reserve(parts_.size());
  for (const auto& [index, part] : parts_) {
    if (part != head_) all.push_back(part);
  }
  if (head_ != nullptr) all.push_back(head_);
  parts_.clear();
  owners_.clear();
  num_ready_ = 0;
  head_ = nullptr;
  return all;
}

NamedSnapshot* SnapshotParts::OwnerOfPrefix(absl::string_view name) const {
  const auto after = owners_.upper_bound(name);
  if (after == owners_.begin()) return nullptr;
  const auto& [prefix, owner] = *std::prev(after);
  return absl::StartsWith(name, prefix) ? owner : nullptr;
}

const NamedSnapshot* SnapshotParts::PartOf(absl::string_view name) const {
  CountLook();
  const absl::string_view key = WholeKeyOf(name);
  if (has_prefixes_) return OwnerOfPrefix(key);
  const auto it = owners_.find(key);
  return it == owners_.end() ? nullptr : it->second;
}

void SnapshotParts::SetHead(NamedSnapshot& head) {
  head_ = &head;
  uint64_t num_keys = 0;
  uint64_t bytes = 0;
  bool are_counted = true;
  for (const auto& [index, part] : parts_) {
    are_counted &= part->num_keys.has_value();
    num_keys += part->num_keys.value_or(0);
    bytes += part->bytes.value_or(0);
  }
  head.num_keys.reset();
  head.bytes.reset();
  if (!are_counted) return;
  head.num_keys = num_keys;
  head.bytes = bytes;
}

SnapshotTerms SnapshotParts::TermsOfWhole() const { return CopyOf(terms_); }

uint64_t SnapshotParts::HeldBytes() const {
  uint64_t bytes = 0;
  for (const auto& [index, part] : parts_) bytes += part->held_bytes;
  return bytes;
}

const NamedSnapshot* PartOf(const NamedSnapshot& snapshot,
                            absl::string_view name) {
  return IsOfParts(snapshot) ? snapshot.parts->PartOf(name) : &snapshot;
}

bool IsOfParts(const NamedSnapshot& snapshot) {
  return snapshot.parts != nullptr && snapshot.parts->head() == &snapshot;
}

}  // namespace tensorkv
