#include "service/store/keyspace/snapshots/snapshot_copies.h"

#include <algorithm>
#include <utility>

namespace tensorkv {
namespace {

// Returns the copy that makes `kept` ready in the key's queue.
PendingUpdate CopyOf(NamespaceState& state, KeptKeyPtr kept,
                     uint64_t revision) {
  PendingUpdate copy;
  copy.revision = revision;
  copy.access = MakeRefCounted<KeyCopy>(std::move(kept), state.snapshots.get(),
                                        &state.memory.host().state);
  return copy;
}

// Makes `kept` ready, unless it needs a copy, which is returned. REQUIRES:
// nothing runs on the key.
std::optional<PendingUpdate> TakeNow(NamespaceState& state,
                                     const StoredKey& key,
                                     const KeptKeyPtr& kept,
                                     uint64_t revision) {
  kept->TakeValue(key);
  if (kept->bytes_to_copy() > 0) return CopyOf(state, kept, revision);
  kept->SetReady(absl::OkStatus());
  return std::nullopt;
}

// Returns the place before the first change in the key's queue that is later
// than `revision`.
std::list<PendingUpdate>::iterator PlaceAfter(StoredKey& key,
                                              uint64_t revision) {
  return std::find_if(key.pending().begin(), key.pending().end(),
                      [revision](const PendingUpdate& each) {
                        return each.revision > revision;
                      });
}

// Has a change begin on the key. Returns what is to be taken of it before, if
// an open snapshot lacks it, or null.
KeptKeyPtr KeepUntil(NamespaceState& state, StoredKey& key, uint64_t revision) {
  const uint64_t since = std::exchange(key.revision, revision);
  if (!state.snapshots->MayLack(key.name(), since, revision)) return nullptr;
  auto kept = MakeRefCounted<KeptKey>(key);
  state.snapshots->Keep(kept, since, revision);
  return kept;
}

// Returns the copy for the snapshots between two changes that wait in the key's
// queue, if one of them lacks the key.
std::optional<PendingUpdate> CopyAhead(NamespaceState& state,
                                       const StoredKey& key, uint64_t since,
                                       uint64_t until) {
  if (!state.snapshots->MayLack(key.name(), since, until)) return std::nullopt;
  auto kept = MakeRefCounted<KeptKey>(key);
  state.snapshots->Keep(kept, since, until);
  return CopyOf(state, std::move(kept), until);
}

// Adds copies to the queue of a key on which something runs, for the snapshots
// between two of the changes that are under way or wait there, and for those
// between the last one and `revision`.
void KeepAhead(NamespaceState& state, StoredKey& key, uint64_t revision) {
  const uint64_t newest = state.snapshots->newest();
  uint64_t since = key.revision;
  if (key.has_pending()) {
    std::list<PendingUpdate>& pending = key.pending();
    for (auto it = pending.begin(); it != pending.end(); ++it) {
      if (since > newest) return;
      if (it->revision <= since) continue;
      // A copy that is there already is for the same snapshots.
      if (!it->is_copy()) {
        auto copy = CopyAhead(state, key, since, it->revision);
        if (copy) pending.insert(it, *std::move(copy));
      }
      since = it->revision;
    }
  }
  if (since > newest) return;
  if (auto copy = CopyAhead(state, key, since, revision)) {
    key.pending().push_back(*std::move(copy));
  }
}

}  // namespace

std::optional<PendingUpdate> KeepBefore(NamespaceState& state, StoredKey& key,
                                        uint64_t revision) {
  const KeptKeyPtr kept = KeepUntil(state, key, revision);
  return kept ? TakeNow(state, key, kept, revision) : std::nullopt;
}

void KeepBeforeContribution(Transaction& transaction, StoredKey& key) {
  NamespaceState& state = transaction.state();
  const uint64_t newest = state.snapshots->newest();
  // Another contribution has been kept for already.
  if (key.has_pending()) {
    const PendingUpdate& last = key.pending().back();
    if (!last.access && last.revision > newest) return;
  }
  KeepAhead(state, key, transaction.revision());
}

void KeepBeforeRemoval(Transaction& transaction, StoredKey& key) {
  NamespaceState& state = transaction.state();
  if (key.revision > state.snapshots->newest()) return;
  const uint64_t revision = transaction.revision();
  if (key.is_updating) return KeepAhead(state, key, revision);
  const KeptKeyPtr kept = KeepUntil(state, key, revision);
  if (kept) kept->TakeRemoved(key);
}

void KeepBeforeRuleChange(Transaction& transaction, StoredKey& key) {
  NamespaceState& state = transaction.state();
  // No later snapshot has one that was removed.
  if (!key.is_removed && key.revision <= state.snapshots->newest() &&
      !TryBegin(transaction, key, transaction.revision())) {
    KeepAhead(state, key, transaction.revision());
  }
  if (!key.has_pending()) return;
  // Copies may wait for snapshots that are closed, as these have taken all.
  for (const PendingUpdate& each : key.pending()) {
    if (each.access) each.access->BeforeRuleChange(key);
  }
}

KeptKeyPtr TakeForSnapshot(Transaction& transaction, StoredKey& key,
                           const OpenSnapshot& snapshot) {
  if (key.revision > snapshot.revision) return nullptr;
  NamespaceState& state = transaction.state();
  if (!key.is_updating) {
    auto kept = MakeRefCounted<KeptKey>(key);
    if (auto copy = TakeNow(state, key, kept, /*revision=*/0)) {
      transaction.work().updates.Add(&key, *std::move(copy));
    }
    return kept;
  }
  const auto place = PlaceAfter(key, snapshot.revision);
  if (place != key.pending().end() && place->is_copy()) return nullptr;
  auto kept = MakeRefCounted<KeptKey>(key);
  key.pending().insert(place, CopyOf(state, kept, /*revision=*/0));
  return kept;
}

}  // namespace tensorkv
