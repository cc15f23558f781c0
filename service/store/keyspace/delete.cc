// Delete: takes keys out of a namespace, and ends what waits for them.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "service/store/keyspace/key_removal.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/pull/pull_ends.h"
#include "service/store/keyspace/rounds/round_endings.h"
#include "service/store/keyspace/snapshots/snapshot_copies.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"
#include "service/store/round_exchange.h"

namespace tensorkv {
namespace {

// Returns why rounds of the key have failed.
absl::string_view CauseOf(Removal removal) {
  switch (removal) {
    case Removal::kDelete:
      return "its key was deleted";
    case Removal::kReplace:
      return "its key was replaced";
    case Removal::kGone:
      return "its key has gone to another server";
  }
  return "";
}

}  // namespace

void RemoveKey(Transaction& transaction, StoredKey& key, Removal removal) {
  NamespaceState& state = transaction.state();
  KeepBeforeRemoval(transaction, key);
  if (state.moving) state.moving->Record(key.name());
  if (removal != Removal::kReplace) {
    state.changes.Record(
        removal == Removal::kDelete ? ChangeKind::kDelete : ChangeKind::kGone,
        key.name(), 0, transaction.revision());
  }
  KeyPtr removed = state.keys.Erase(key.name());
  removed->Retire(state.restored_versions);
  RemoveRounds(transaction, *removed, CauseOf(removal));
  transaction.Drop(std::move(removed));
}

void TellExchange(const NamespaceState& state, const GoneKeys& gone) {
  if (!state.config.mirrored) return;
  for (const auto& [key, version] : gone) {
    state.environment.exchange->Remove(state.name, key, version);
  }
}

namespace {

absl::StatusOr<DeleteReply> DeleteKeys(NamespaceState& state,
                                       const DeleteRequest& request) {
  RETURN_IF_ERROR(state.CheckNumEntries(request.keys_size()));
  std::vector<size_t> hashes;
  hashes.reserve(request.keys_size());
  for (const std::string& key : request.keys()) {
    RETURN_IF_ERROR(CheckKey(key));
    hashes.push_back(KeyTable::HashOf(key));
  }
  Transaction transaction(state);
  RETURN_IF_ERROR(state.gone);
  RETURN_IF_ERROR(
      CheckEach(state.Fence(), request.keys(),
                [&](const KeyFence::View& fence, const std::string& key) {
                  return fence.CheckChange(state.name, key);
                }));
  // Calls may name a hundred thousand keys, of which hardly any exists.
  std::vector<size_t> found;
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (state.keys.Find(request.keys(i), hashes[i]) != nullptr) {
      found.push_back(i);
    } else if (!request.allow_missing()) {
      return state.NoSuchKey(request.keys(i));
    }
  }
  uint64_t num_deleted = 0;
  GoneKeys gone;
  for (const size_t i : found) {
    const std::string& key = request.keys(i);
    StoredKey* const existing = state.keys.Find(key, hashes[i]);
    if (existing == nullptr) continue;  // it was named before
    EndPullsOf(transaction, *existing);
    gone.emplace_back(key, state.LastVersionOf(*existing));
    state.version_floor = std::max(state.version_floor, gone.back().second);
    RemoveKey(transaction, *existing, Removal::kDelete);
    ++num_deleted;
  }
  for (const size_t i : found) Wake(transaction, request.keys(i));
  transaction.Unlock();
  TellExchange(state, gone);
  DeleteReply reply;
  reply.set_num_deleted(num_deleted);
  return reply;
}

}  // namespace

void Namespace::Delete(DeleteRequest request, CallContext,
                       ReplyCallback<DeleteReply> done) {
  std::move(done)(DeleteKeys(*state_, request));
}

}  // namespace tensorkv
