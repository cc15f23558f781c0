// How long rounds wait for the workers that they lack.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUND_TIMES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUND_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "contract/namespace_config.h"
#include "service/store/keyspace/earliest_alarm.h"
#include "service/store/keyspace/stored_key.h"

namespace tensorkv {

struct NamespaceState;

// The times of a namespace's rounds: how long a quorum waits for the others
// (NamespaceConfig::quorum_grace), and how long a round waits for what it needs
// (round_timeout). Guarded by the namespace's mutex.
class RoundTimes {
 public:
  // Starts the times of the key's round of `step` that the configuration has:
  // when they are over, a quorum closes the round, or the round fails. Does
  // nothing if the round is not open.
  void Begin(NamespaceState& state, const StoredKey& key, Step step);
  // Goes by a configuration that was `before`: the times that run become longer
  // by as much as those of the configuration, and those begin of open rounds
  // that have had none.
  void Change(NamespaceState& state, const NamespaceConfig& before);

 private:
  static constexpr size_t kMinRoundsToSweep = 64;

  struct OpenRound {
    absl::Duration end;
    std::string key;
    Step step = 0;
    uint64_t id = 0;
  };

  // Times of one length, and so in the order of their ends.
  struct Queue {
    std::deque<OpenRound> rounds;
    size_t rounds_to_sweep = kMinRoundsToSweep;

    // Adds the round of the key, from now on; forgets rounds that are over,
    // whenever there are twice as many as after the last time.
    void Add(const NamespaceState& state, absl::Duration time,
             const StoredKey& key, Step step);
    // Makes all times longer by `difference`. Returns the ids of the rounds.
    absl::flat_hash_set<uint64_t> Prolong(absl::Duration difference);
    // Returns the key of the first round whose time is over by now, and takes
    // the round out; null if there is none.
    StoredKey* TakeDue(const NamespaceState& state, OpenRound& round);
  };

  // Runs when the alarm is due, with the mutex free.
  static void EndDue(NamespaceState& state);
  // Sets the alarm for the first end of a time.
  void Watch(NamespaceState& state);
  // Returns the key of a round that waits yet; null if it is over or the key is
  // gone.
  static StoredKey* Find(const NamespaceState& state, const OpenRound& round);

  Queue graces_;
  Queue timeouts_;
  EarliestAlarm alarm_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUND_TIMES_H_
