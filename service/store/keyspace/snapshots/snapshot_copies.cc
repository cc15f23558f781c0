#include "service/store/keyspace/snapshots/snapshot_copies.h"

#include <utility>

#include "service/store/keyspace/snapshots/letting_go.h"
#include "service/store/keyspace/snapshots/named_values.h"

namespace tensorkv {
namespace {

// Makes `kept` ready: now, or by an access of the key.
void Take(Transaction& transaction, StoredKey& key, const KeptKeyPtr& kept) {
  NamespaceState& state = transaction.state();
  PendingUpdate copy;
  if (!key.is_updating) {
    kept->TakeValue(key);
    if (kept->bytes_to_copy() == 0) return kept->SetReady(absl::OkStatus());
  }
  copy.access =
      MakeRefCounted<KeyCopy>(kept, state.snapshots.get(), &state.memory);
  if (key.is_updating) return key.pending().push_back(std::move(copy));
  transaction.work().updates.Add(&key, std::move(copy));
}

// Has the open snapshots fail if they have too much with `more` bytes, and
// returns whether.
bool FailIfTooMuch(Transaction& transaction, const BytesNeeded& more = {}) {
  const NamespaceState& state = transaction.state();
  MakeRoom(transaction, more);
  const absl::Status status = state.memory.CheckRetained(more, Leaving(state));
  if (status.ok()) return false;
  transaction.Drop(state.snapshots->FailAll(status));
  return true;
}

// Returns what is to be taken of the key before its last change, if an open
// snapshot lacks it, or null. `more_bytes` of the device are what the change
// then takes at once for the snapshots' sake.
KeptKeyPtr Keep(Transaction& transaction, const StoredKey& key, uint64_t since,
                uint64_t more_bytes) {
  const NamespaceState& state = transaction.state();
  if (!state.snapshots->MayLack(key.name(), since, key.revision)) return {};
  if (FailIfTooMuch(transaction, {.device = more_bytes})) return {};
  auto kept = MakeRefCounted<KeptKey>(key, state.memory.host().retained);
  state.snapshots->Keep(kept, since, key.revision);
  return kept;
}

// Has a tensor of the key be counted as retained. Others may have it too.
void CountAsRetained(NamespaceState& state, Buffer& tensor) {
  const RefPtr<BudgetAccount>& retained = state.memory.device().retained;
  if (tensor.size_bytes() == 0 || tensor.account() == retained.get()) return;
  retained->Reserve(tensor.size_bytes()).IgnoreError();  // it has no bound
  tensor.ExchangeAccount(retained)->Release(
      static_cast<int64_t>(tensor.size_bytes()));
}

void CountStatesAsRetained(NamespaceState& state, const RuleState& of) {
  for (const RefPtr<Buffer>& each : of.states) CountAsRetained(state, *each);
  if (of.master) CountAsRetained(state, *of.master);
}

}  // namespace

void KeepBefore(Transaction& transaction, StoredKey& key, uint64_t since,
                bool has_reservation) {
  const uint64_t more_bytes = has_reservation ? 0 : key.value_bytes();
  KeepForNamed(transaction, key, since, more_bytes);
  const KeptKeyPtr kept = Keep(transaction, key, since, more_bytes);
  if (kept) Take(transaction, key, kept);
}

void KeepBeforeRemoval(Transaction& transaction, StoredKey& key) {
  const uint64_t since = std::exchange(key.revision, transaction.revision());
  NamespaceState& state = transaction.state();
  KeepForNamed(transaction, key, since);
  const KeptKeyPtr kept = Keep(transaction, key, since, 0);
  if (key.is_updating) {
    if (kept) Take(transaction, key, kept);
    return;
  }
  if (kept) {
    kept->TakeRemoved(key);
    if (key.rule_state) CountStatesAsRetained(state, *key.rule_state);
  }
  if (!MayHaveValue(state, key)) return;
  CountAsRetained(state, *key.value);
  FailIfTooMuch(transaction);
}

void RetainFormer(Transaction& transaction, StoredKey& key, Buffer* former) {
  NamespaceState& state = transaction.state();
  const bool has_gone = key.is_removed && !key.has_pending();
  if (former == nullptr && !has_gone) return;
  if (former == nullptr) {
    CountAsRetained(state, *key.value);
  } else if (key.value->account() == state.memory.device().retained.get()) {
    // The new value was paid for in the place of the former one.
    (void)key.value->ExchangeAccount(
        former->ExchangeAccount(state.memory.device().retained));
  } else {
    CountAsRetained(state, *former);
  }
  key.value_is_kept = false;
  FailIfTooMuch(transaction);
}

// Looks at all that waits for the key: rules change seldom, and each of these
// has cost more to admit.
void KeepBeforeRuleChange(Transaction& transaction, StoredKey& key) {
  // No later snapshot has one that was removed.
  if (!key.is_removed) TryBegin(transaction, key);
  if (!key.has_pending()) return;
  for (const PendingUpdate& each : key.pending()) {
    if (each.access) each.access->BeforeRuleChange(key);
  }
}

KeptKeyPtr TakeForSnapshot(Transaction& transaction, StoredKey& key,
                           const OpenSnapshot& snapshot) {
  if (key.revision > snapshot.revision) return nullptr;
  auto kept =
      MakeRefCounted<KeptKey>(key, transaction.state().memory.host().retained);
  Take(transaction, key, kept);
  return kept;
}

}  // namespace tensorkv
