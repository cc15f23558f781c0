#include "service/store/keyspace/rounds/round_times.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/rounds/round_endings.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/waiting_calls.h"

namespace tensorkv {

StoredKey* RoundTimes::Find(const NamespaceState& state,
                            const OpenRound& round) {
  StoredKey* const key = state.keys.Find(round.key);
  const bool is_open = key != nullptr && key->rounds &&
                       key->rounds->IsOpen(round.step, round.id);
  return is_open ? key : nullptr;
}

void RoundTimes::Queue::Add(const NamespaceState& state, absl::Duration time,
                            const StoredKey& key, Step step) {
  if (rounds.size() >= rounds_to_sweep) {
    std::erase_if(rounds, [&state](const OpenRound& round) {
      return Find(state, round) == nullptr;
    });
    rounds_to_sweep = std::max(kMinRoundsToSweep, 2 * rounds.size());
  }
  rounds.push_back({state.Now() + time, std::string(key.name()), step,
                    key.rounds->IdOf(step)});
}

absl::flat_hash_set<uint64_t> RoundTimes::Queue::Prolong(
    absl::Duration difference) {
  absl::flat_hash_set<uint64_t> ids;
  for (OpenRound& round : rounds) {
    round.end += difference;
    ids.insert(round.id);
  }
  return ids;
}

StoredKey* RoundTimes::Queue::TakeDue(const NamespaceState& state,
                                      OpenRound& round) {
  while (!rounds.empty() && rounds.front().end <= state.Now()) {
    round = std::move(rounds.front());
    rounds.pop_front();
    if (StoredKey* const key = Find(state, round)) return key;
  }
  return nullptr;
}

void RoundTimes::Begin(NamespaceState& state, const StoredKey& key, Step step) {
  if (key.rounds->OpensRound(step)) return;
  if (key.rounds->HasGrace(step)) {
    graces_.Add(state, state.config.quorum_grace, key, step);
  }
  if (state.config.round_timeout > absl::ZeroDuration()) {
    timeouts_.Add(state, state.config.round_timeout, key, step);
  }
  Watch(state);
}

void RoundTimes::Change(NamespaceState& state, const NamespaceConfig& before) {
  const NamespaceConfig& config = state.config;
  const auto graces =
      graces_.Prolong(config.quorum_grace - before.quorum_grace);
  const bool has_timeout = config.round_timeout > absl::ZeroDuration();
  if (!has_timeout) timeouts_ = {};
  const auto timeouts =
      timeouts_.Prolong(config.round_timeout - before.round_timeout);
  std::vector<const StoredKey*> keys(state.keys_with_rounds.begin(),
                                     state.keys_with_rounds.end());
  // Rounds end in an order that does not differ from run to run.
  absl::c_sort(keys, [](const StoredKey* a, const StoredKey* b) {
    return a->name() < b->name();
  });
  for (const StoredKey* key : keys) {
    for (const auto& [step, id] : key->rounds->OpenIds()) {
      if (key->rounds->HasGrace(step) && !graces.contains(id)) {
        graces_.Add(state, config.quorum_grace, *key, step);
      }
      if (has_timeout && !timeouts.contains(id)) {
        timeouts_.Add(state, config.round_timeout, *key, step);
      }
    }
  }
  Watch(state);
}

void RoundTimes::Watch(NamespaceState& state) {
  for (const Queue* queue : {&graces_, &timeouts_}) {
    if (queue->rounds.empty()) continue;
    alarm_.RingAt(queue->rounds.front().end, state, &RoundTimes::EndDue);
  }
}

// A quorum closes a round whose times both end now.
void RoundTimes::EndDue(NamespaceState& state) {
  Transaction transaction(state, Transaction::Thread::kAlarms);
  RoundTimes& times = state.round_times;
  times.alarm_.MarkRung();
  OpenRound round;
  while (StoredKey* const key = times.graces_.TakeDue(state, round)) {
    CloseRounds(transaction, *key, key->rounds->EndGrace(round.step, round.id));
  }
  bool has_failed = false;
  while (StoredKey* const key = times.timeouts_.TakeDue(state, round)) {
    const RoundFailurePtr failure = key->rounds->DescribeTimeout(
        round.step, state.config.round_timeout, state.Now());
    if (failure == nullptr) continue;
    FailRounds(transaction, *key, round.step, failure);
    has_failed = true;
  }
  if (has_failed) WakeAll(transaction);
  times.Watch(state);
}

}  // namespace tensorkv
