#include "service/store/keyspace/key_removal.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "service/store/keyspace/round_endings.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {

// The transaction keeps the key, and with it the name that `ended` refers to.
void RemoveKey(Transaction& transaction, absl::string_view name,
               RoundsOfKeys& ended) {
  KeyPtr key = transaction.state().keys.Erase(name);
  RemoveRounds(transaction, *key, ended);
  transaction.Drop(std::move(key));
}

absl::StatusOr<DeleteReply> Delete(NamespaceState& state,
                                   const DeleteRequest& request) {
  RETURN_IF_ERROR(state.CheckNumEntries(request.keys.size()));
  for (const std::string& key : request.keys) RETURN_IF_ERROR(CheckKey(key));
  Transaction transaction(state);
  for (const std::string& key : request.keys) {
    if (!request.allow_missing && state.keys.Find(key) == nullptr) {
      return state.NoSuchKey(key);
    }
  }
  DeleteReply reply;
  RoundsOfKeys ended;
  for (const std::string& key : request.keys) {
    StoredKey* const existing = state.keys.Find(key);
    if (existing == nullptr) continue;
    EndPullsOf(transaction, *existing);
    state.version_floor = std::max(
        state.version_floor, existing->version + existing->num_updates_ahead());
    RemoveKey(transaction, key, ended);
    transaction.Commit();
    ++reply.num_deleted;
  }
  EndPullsOfRounds(transaction, ended, [&state](absl::string_view key) {
    return state.NoSuchKey(key);
  });
  for (const std::string& key : request.keys) Wake(transaction, key);
  return reply;
}

}  // namespace tensorkv
