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

// Counts the keys of the snapshot, where they are all, or few.
void CountKeys(const KeyTable& keys, NamedSnapshot& snapshot) {
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
  RETURN_IF_ERROR(state.named->Check(terms));
  const BytesNeeded more = {.host = NamedSnapshots::BytesOf(terms)};
  MakeRoom(transaction, more);
  return CheckRoom(state, more);
}

PublishedSnapshot TakeSnapshot(Transaction& transaction, SnapshotTerms terms,
                               RefPtr<QueuedCall> taken_by) {
  NamespaceState& state = transaction.state();
  if (terms.uid == 0) terms.uid = NewSnapshotUid();
  // If the call comes in parts, the share has the parts that came before.
  NamedSnapshot* const earlier = state.named->FindUid(terms.uid);
  if (earlier != nullptr) {
    CloseSnapshot(transaction, *earlier, NamedSnapshots::Cause::kAbandoned);
  }
  NamedSnapshot& snapshot =
      state.named->Open(std::move(terms), transaction.revision(), state.Now());
  state.snapshots->BeginReading();
  snapshot.create_time = absl::Now();
  snapshot.taken_by = std::move(taken_by);
  snapshot.owned = state.Owned();
  if (snapshot.is_share && !snapshot.owned->Has(state.name, "")) {
    // At the home its reservation has the number.
    Series& series = *snapshot.series;
    series.last_number = std::max(series.last_number, snapshot.number);
  }
  CountKeys(state.keys, snapshot);
  SetSnapshotAlarm(state);
  return {.number = snapshot.number, .revision = snapshot.revision};
}

absl::StatusOr<Publication> Publication::Create(
    const std::optional<PublishAs>& publish_as) {
  Publication publication;
  if (publish_as) {
    ASSIGN_OR_RETURN(publication.terms_, TermsOf(*publish_as));
  }
  return publication;
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
    state.named->SetReady(*next);
    if (!next->is_share) {
      state.changes.Record(ChangeKind::kSnapshot, series.name, next->number,
                           transaction.revision());
      TrimSeries(transaction, series);
    }
    Wake(transaction, SnapshotTopic(series.name));
  }
}

}  // namespace tensorkv
