#include "service/store/keyspace/pull/pull_ends.h"

#include <utility>
#include <vector>

#include "service/store/keyspace/pull/pull_call.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/looks.h"

namespace tensorkv {
namespace {

// Ends the pulls that watch the key for which `check` returns an error, with
// that.
void EndWatching(Transaction& transaction, const StoredKey& key,
                 absl::FunctionRef<absl::Status(const PullCall&)> check) {
  std::vector<std::pair<WaitingCallPtr, absl::Status>> ending;
  for (KeyWatches::Watch* watch = transaction.state().watches.Find(&key);
       watch != nullptr; watch = watch->next) {
    CountLook();
    if (watch->call->is_finished) continue;
    absl::Status status = check(static_cast<const PullCall&>(*watch->call));
    if (status.ok()) continue;
    ending.emplace_back(watch->call->shared_from_this(), std::move(status));
  }
  for (const auto& [call, status] : ending) {
    // It may have watched the key twice.
    if (!call->is_finished) FailCall(transaction, call, status);
  }
}

}  // namespace

void EndPullsOf(Transaction& transaction, const StoredKey& key) {
  NamespaceState& state = transaction.state();
  EndWatching(transaction, key, [&](const PullCall& call) {
    return call.EndsWith(key) ? state.NoSuchKey(key.name()) : absl::OkStatus();
  });
  // The remaining watches wait for other keys, or for this one to come again.
  while (KeyWatches::Watch* const watch = state.watches.Find(&key)) {
    state.watches.Remove(watch);
  }
}

void EndPullsOfRounds(Transaction& transaction, const StoredKey& key,
                      absl::FunctionRef<absl::Status()> status) {
  EndWatching(transaction, key, [&](const PullCall& call) {
    return call.AwaitsRoundOf(key) ? status() : absl::OkStatus();
  });
}

void EndPullsThatLackWorkers(Transaction& transaction, const StoredKey& key) {
  EndWatching(transaction, key,
              [&](const PullCall& call) { return call.CheckNobodyLeft(key); });
}

}  // namespace tensorkv
