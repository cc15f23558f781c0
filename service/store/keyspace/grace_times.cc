#include "service/store/keyspace/grace_times.h"

#include <algorithm>
#include <utility>

#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/round_endings.h"
#include "service/store/keyspace/transaction.h"

namespace tensorkv {

void GraceTimes::Begin(NamespaceState& state, const StoredKey& key, Step step) {
  if (state.config.quorum == 0 || key.rounds->OpensRound(step)) return;
  Sweep(state);
  rounds_.push_back({state.Now() + state.config.quorum_grace,
                     std::string(key.name()), step, key.rounds->IdOf(step)});
  Watch(state);
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
