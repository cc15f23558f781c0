#include "service/store/keyspace/snapshots/taking.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/letting_go.h"
#include "service/store/keyspace/snapshots/snapshot_terms.h"
#include "service/store/keyspace/waiting_calls.h"

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
  for (const std::string& prefix : snapshot.prefixes) {
    const std::vector<StoredKey*> some = keys.List(prefix, "", num_left + 1);
    if (some.size() > num_left) return;
    num_left -= some.size();
    for (const StoredKey* key : some) {
      if (counted.insert(key).second) bytes += key->value_bytes();
    }
  }
  snapshot.num_keys = counted.size();
  snapshot.bytes = bytes;
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

absl::Status CheckCanTake(Transaction& transaction, SnapshotTerms& terms) {
  NamespaceState& state = transaction.state();
  RETURN_IF_ERROR(state.gone);
  LetAbandonedGo(transaction, terms.series);
  RETURN_IF_ERROR(state.named->Check(terms));
  const BytesNeeded more = {.host = NamedSnapshots::BytesOf(terms)};
  MakeRoom(transaction, more);
  return CheckRoom(state, more);
}

PublishedSnapshot TakeSnapshot(Transaction& transaction, SnapshotTerms terms,
                               RefPtr<QueuedCall> taken_by) {
  NamespaceState& state = transaction.state();
  NamedSnapshot& snapshot =
      state.named->Open(std::move(terms), transaction.revision(), state.Now());
  state.snapshots->BeginReading();
  snapshot.create_time = absl::Now();
  snapshot.taken_by = std::move(taken_by);
  CountKeys(state.keys, snapshot);
  WatchSnapshots(state);
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
    TrimSeries(transaction, series);
    Wake(transaction, SnapshotTopic(series.name));
  }
}

}  // namespace tensorkv
