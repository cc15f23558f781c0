#include "service/store/keyspace/rounds/grace_times.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/rounds/round_endings.h"
#include "service/store/keyspace/transaction.h"

namespace tensorkv {

void GraceTimes::Begin(NamespaceState& state, const StoredKey& key, Step step) {
  if (!key.rounds->HasGrace(step) || key.rounds->OpensRound(step)) return;
  Sweep(state);
  Add(state, key, step, key.rounds->IdOf(step));
  Watch(state);
}

void GraceTimes::Add(const NamespaceState& state, const StoredKey& key,
                     Step step, uint64_t id) {
  rounds_.push_back({state.Now() + state.config.quorum_grace,
                     std::string(key.name()), step, id});
}

void GraceTimes::Change(NamespaceState& state, absl::Duration difference) {
  absl::flat_hash_set<uint64_t> begun;
  for (OpenRound& round : rounds_) {
    round.grace_end += difference;
    begun.insert(round.id);
  }
  std::vector<const StoredKey*> keys(state.keys_with_rounds.begin(),
                                     state.keys_with_rounds.end());
  // Rounds end in an order that does not differ from run to run.
  absl::c_sort(keys, [](const StoredKey* a, const StoredKey* b) {
    return a->name() < b->name();
  });
  for (const StoredKey* key : keys) {
    for (const auto& [step, id] : key->rounds->OpenIds()) {
      if (!key->rounds->HasGrace(step) || begun.contains(id)) continue;
      Add(state, *key, step, id);
    }
  }
  if (!rounds_.empty()) Watch(state);
}

void GraceTimes::Watch(NamespaceState& state) {
  alarm_.RingAt(rounds_.front().grace_end, state, &GraceTimes::EndDue);
}

StoredKey* GraceTimes::Find(const NamespaceState& state,
                            const OpenRound& round) {
  StoredKey* const key = state.keys.Find(round.key);
  const bool is_open = key != nullptr && key->rounds &&
                       key->rounds->IsOpen(round.step, round.id);
  return is_open ? key : nullptr;
}

void GraceTimes::Sweep(const NamespaceState& state) {
  if (rounds_.size() < rounds_to_sweep_) return;
  std::erase_if(rounds_, [&state](const OpenRound& round) {
    return Find(state, round) == nullptr;
  });
  rounds_to_sweep_ = std::max(kMinRoundsToSweep, 2 * rounds_.size());
}

void GraceTimes::EndDue(NamespaceState& state) {
  Transaction transaction(state, Transaction::Thread::kAlarms);
  GraceTimes& graces = state.graces;
  graces.alarm_.MarkRung();
  const absl::Duration now = state.Now();
  while (!graces.rounds_.empty() && graces.rounds_.front().grace_end <= now) {
    const OpenRound round = std::move(graces.rounds_.front());
    graces.rounds_.pop_front();
    StoredKey* const key = Find(state, round);
    if (key == nullptr) continue;
    CloseRounds(transaction, *key, key->rounds->EndGrace(round.step, round.id));
  }
  if (!graces.rounds_.empty()) graces.Watch(state);
}

}  // namespace tensorkv
