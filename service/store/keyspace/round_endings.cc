#include "service/store/keyspace/round_endings.h"

#include <utility>

#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/update_runner.h"

namespace tensorkv {
namespace {

// Keeps busy_keys after a change of the key's rounds.
void NoteRounds(NamespaceState& state, StoredKey& key) {
  if (key.rounds->is_idle()) {
    state.busy_keys.erase(&key);
  } else {
    state.busy_keys.insert(&key);
  }
}

}  // namespace

void CloseRounds(Transaction& transaction, StoredKey& key,
                 PendingUpdates updates) {
  NamespaceState& state = transaction.state();
  state.counts.rounds_open -= updates.size();
  for (PendingUpdate& update : updates) {
    state.workers->Close(update.round);
    Enqueue(transaction, key, std::move(update));
  }
  if (auto fold = key.rounds->BeginScaling()) {
    transaction.work().folds.push_back({KeyPtr(&key), *std::move(fold)});
  }
  NoteRounds(state, key);
}

void CloseRounds(Transaction& transaction, StoredKey& key,
                 ClosedRounds closed) {
  CloseRounds(transaction, key, UpdatesOf(std::move(closed)));
}

void FailRounds(Transaction& transaction, StoredKey& key, Step step,
                const RoundFailurePtr& failure) {
  NamespaceState& state = transaction.state();
  FailedRounds failed = key.rounds->Fail(step, failure);
  const uint64_t num_failed = failed.open.size() + failed.num_closed;
  state.counts.rounds_open -= failed.open.size();
  state.counts.rounds_failed += num_failed;
  transaction.ReportFailedRounds(key.name(), step, *failure, num_failed);
  transaction.Drop(std::move(failed.open));
  NoteRounds(state, key);
}

void RemoveRounds(Transaction& transaction, StoredKey& key,
                  RoundsOfKeys& ended) {
  if (!key.rounds) return;
  NamespaceState& state = transaction.state();
  const size_t num_open = key.rounds->num_open();
  if (num_open > 0) ended.emplace(key.name(), key.rounds.get());
  state.counts.rounds_open -= num_open;
  state.counts.rounds_failed += num_open;
  key.rounds->ForgiveAll();
  state.busy_keys.erase(&key);
  transaction.Drop(std::move(key.rounds));
}

}  // namespace tensorkv
