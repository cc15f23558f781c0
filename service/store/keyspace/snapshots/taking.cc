#include "service/store/keyspace/snapshots/taking.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "contract/placement.h"
#include "contract/reason.h"
#include "contract/slices.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/cluster_shares.h"
#include "service/store/keyspace/snapshots/letting_go.h"
#include "service/store/keyspace/snapshots/snapshot_reference.h"
#include "service/store/keyspace/snapshots/snapshot_terms.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Counts the keys that a part names, and slices of them not.
void CountNamedKeys(const KeyTable& keys, NamedSnapshot& part) {
  part.num_keys = part.bytes = 0;
  for (const std::string& name : part.keys) {
    const StoredKey* const key = keys.Find(name);
    if (key == nullptr) continue;
    ++*part.num_keys;
    *part.bytes += key->value_bytes();
  }
}

// Counts the keys of the snapshot, where they are all, or few.
void CountKeys(const KeyTable& keys, NamedSnapshot& snapshot) {
  if (snapshot.prefixes.empty()) return CountNamedKeys(keys, snapshot);
  if (snapshot.prefixes.front().empty()) {
    snapshot.num_keys = keys.size();
    snapshot.bytes = keys.value_bytes();
    return;
  }
  std::set<const StoredKey*> counted;
  uint64_t bytes = 0;
  size_t num_left = kKeysPerLock;
  std::vector<absl::string_view> parts(snapshot.prefixes.begin(),
                                       snapshot.prefixes.end());
  parts.push_back(kSliceMark);
  for (const absl::string_view part : parts) {
    const std::vector<StoredKey*> some = keys.List(part, "", num_left + 1);
    if (some.size() > num_left) return;
    num_left -= some.size();
    for (const StoredKey* key : some) {
      if (!snapshot.Has(key->name())) continue;
      if (counted.insert(key).second) bytes += key->value_bytes();
    }
  }
  snapshot.num_keys = counted.size();
  snapshot.bytes = bytes;
}

// Checks that a share can be taken: of no other snapshot's uid, and of no share
// that was let go, since what is taken now would be of a later revision than
// the call's.
absl::Status CheckShare(const NamespaceState& state,
                        const SnapshotTerms& terms) {
  if (!terms.is_share) return absl::OkStatus();
  RETURN_IF_ERROR(CheckTakesShares(state));
  const std::deque<uint64_t>& lost = state.named->lost_shares();
  if (std::find(lost.begin(), lost.end(), terms.uid) != lost.end()) {
    return ShareIsLost(state, terms);
  }
  const NamedSnapshot* const earlier = state.named->FindUid(terms.uid);
  if (earlier == nullptr ||
      (!earlier->is_sealed && earlier->series->name == terms.series)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "uid: expected one that no other snapshot has, got another's, or that of "
      "a share that is complete");
}

// Checks that a snapshot that is made of no shares has all keys: that no other
// server owns any. Errors: FailedPrecondition (WRONG_SERVER).
absl::Status CheckOwnsAll(const NamespaceState& state) {
  const auto owned = state.Owned();
  if (owned == nullptr) return absl::OkStatus();
  std::vector<uint32_t> all(owned->num_partitions());
  std::iota(all.begin(), all.end(), 0);
  if (owned->digest() == DigestOf(all)) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          "namespace ", Quoted(state.name),
          ": expected a server that has all of its keys, for a snapshot that "
          "is not made of shares, got one that has some")),
      Reason::kWrongServer,
      {{"key", ""}, {"placement_version", owned->placement_version()}});
}

// Checks that this server gives the snapshot's number, and has others take
// numbers anew whose reservations are over. Errors: those of CheckGivesNumbers
// and, of what is not reserved, of CheckOwnsAll.
absl::Status CheckNumbers(NamespaceState& state, const SnapshotTerms& terms) {
  RETURN_IF_ERROR(CheckGivesNumbers(state));
  state.named->reserved().GiveBackEnded(state.Now());
  return terms.uid == 0 ? CheckOwnsAll(state) : absl::OkStatus();
}

// Has others take the last numbers of the series anew that nobody will see.
void LetAbandonedGo(Transaction& transaction, absl::string_view name) {
  Series* const series = transaction.state().named->Find(name);
  while (series != nullptr) {
    NamedSnapshot* const last = series->Find(series->last_number);
    if (last == nullptr || !last->is_abandoned) return;
    CloseSnapshot(transaction, *last, NamedSnapshots::Cause::kAbandoned);
  }
}

// Lets go of what waits for parts of that number though its time is over.
void LetExpiredGo(Transaction& transaction, const SnapshotTerms& terms) {
  NamespaceState& state = transaction.state();
  if (terms.part_count == 0) return;
  const SnapshotParts* const parts =
      state.named->FindParts(terms.series, *terms.number);
  if (parts == nullptr || parts->end() > state.Now()) return;
  CloseSnapshot(transaction, *parts->parts().begin()->second,
                NamedSnapshots::Cause::kExpired);
}

// Returns the snapshot in whose place this one comes: of the same call, of
// which it has the parts that came before, or of an earlier call with the part;
// null if there is none.
NamedSnapshot* FindEarlier(const NamedSnapshots& named,
                           const SnapshotTerms& terms) {
  if (terms.part_count == 0) return named.FindUid(terms.uid);
  const SnapshotParts* const parts =
      named.FindParts(terms.series, *terms.number);
  return parts == nullptr ? nullptr : parts->Find(terms.part_index);
}

// Returns what the snapshot takes more than the one in whose place it comes.
BytesNeeded BytesBeside(const NamedSnapshots& named,
                        const SnapshotTerms& terms) {
  const NamedSnapshot* const earlier = FindEarlier(named, terms);
  const uint64_t freed = earlier == nullptr ? 0 : earlier->overhead.bytes();
  const uint64_t bytes = NamedSnapshots::BytesOf(terms);
  return {.host = bytes - std::min(bytes, freed)};
}

void LetEarlierGo(Transaction& transaction, const SnapshotTerms& terms) {
  NamedSnapshot* const earlier = FindEarlier(*transaction.state().named, terms);
  if (earlier == nullptr) return;
  CloseSnapshot(transaction, *earlier,
                terms.part_count > 0 ? NamedSnapshots::Cause::kReplaced
                                     : NamedSnapshots::Cause::kAbandoned);
}

}  // namespace

uint64_t NewSnapshotUid() {
  return absl::Uniform<uint64_t>(absl::BitGen(), 1, UINT64_MAX);
}

absl::Status CheckCanTake(Transaction& transaction, SnapshotTerms& terms) {
  NamespaceState& state = transaction.state();
  RETURN_IF_ERROR(state.gone);
  if (!terms.is_share) RETURN_IF_ERROR(CheckNumbers(state, terms));
  RETURN_IF_ERROR(CheckShare(state, terms));
  LetAbandonedGo(transaction, terms.series);
  LetExpiredGo(transaction, terms);
  RETURN_IF_ERROR(state.named->Check(terms));
  const size_t num_gone = transaction.let_go().snapshots.size();
  MakeRoom(transaction, BytesBeside(*state.named, terms));
  // Other parts of it may have gone for that, or an earlier one.
  if (terms.part_count > 0 &&
      transaction.let_go().snapshots.size() > num_gone) {
    RETURN_IF_ERROR(state.named->Check(terms));
  }
  return CheckRoom(state, BytesBeside(*state.named, terms));
}

PublishedSnapshot TakeSnapshot(Transaction& transaction, SnapshotTerms terms,
                               RefPtr<QueuedCall> taken_by) {
  NamespaceState& state = transaction.state();
  if (terms.uid == 0) terms.uid = NewSnapshotUid();
  LetEarlierGo(transaction, terms);
  const uint64_t revision = transaction.revision();
  const absl::Duration now = state.Now();
  const bool is_part = terms.part_count > 0;
  NamedSnapshot& snapshot =
      is_part ? state.named->OpenPart(std::move(terms), revision, now)
              : state.named->Open(std::move(terms), revision, now);
  state.snapshots->BeginReading();
  snapshot.create_time = absl::Now();
  snapshot.taken_by = std::move(taken_by);
  snapshot.owned = state.Owned();
  if (snapshot.is_share && !is_part && !snapshot.owned->Has(state.name, "")) {
    // At the home its reservation has the number.
    Series& series = *snapshot.series;
    series.last_number = std::max(series.last_number, snapshot.number);
    series.last_taken = std::max(series.last_taken, snapshot.number);
  }
  CountKeys(state.keys, snapshot);
  SetSnapshotAlarm(state);
  PublishedSnapshot taken = {.number = snapshot.number, .revision = revision};
  if (is_part) {
    taken.parts_missing = static_cast<uint32_t>(snapshot.parts->num_missing());
  }
  return taken;
}

absl::StatusOr<Publication> Publication::Create(
    const std::optional<PublishAs>& publish_as) {
  Publication publication;
  if (publish_as) {
    ASSIGN_OR_RETURN(publication.terms_, TermsOf(*publish_as));
  }
  return publication;
}

void Publication::AddKey(const std::string& name) {
  terms_->keys.emplace_back(WholeKeyOf(name));
}

void Publication::SortKeys() {
  std::vector<std::string>& keys = terms_->keys;
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
}

std::optional<PublishedSnapshot> Publication::Take(
    Transaction& transaction, RefPtr<QueuedCall> taken_by) {
  if (!terms_) return std::nullopt;
  return TakeSnapshot(transaction, *std::exchange(terms_, std::nullopt),
                      std::move(taken_by));
}

void OpenReadySnapshots(Transaction& transaction) {
  NamespaceState& state = transaction.state();
  while (NamedSnapshot* const next =
             state.named->NextReady(state.revisions.told())) {
    const RefPtr<QueuedCall> taken_by = std::move(next->taken_by);
    if (next->is_abandoned || (taken_by && !taken_by->status.ok())) {
      CloseSnapshot(transaction, *next, NamedSnapshots::Cause::kAbandoned);
      continue;
    }
    Series& series = *next->series;
    const bool is_part = next->parts != nullptr;
    const bool is_named = state.named->SetReady(*next, state.Now());
    if (is_named) {
      SetSnapshotAlarm(state);
      state.changes.Record(ChangeKind::kSnapshot, series.name, next->number,
                           transaction.revision());
      TrimSeries(transaction, series);
    }
    // Nobody waits for one part of several.
    if (is_named || !is_part) Wake(transaction, SnapshotTopic(series.name));
  }
}

}  // namespace tensorkv
