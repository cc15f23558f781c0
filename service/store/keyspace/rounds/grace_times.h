// The time that a round with a quorum waits for the workers it lacks.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_GRACE_TIMES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_GRACE_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "absl/time/time.h"
#include "service/store/keyspace/earliest_alarm.h"
#include "service/store/keyspace/stored_key.h"

namespace tensorkv {

struct NamespaceState;

// The grace times of a namespace's rounds: how long a quorum waits for the
// others. Guarded by its mutex.
class GraceTimes {
 public:
  // Starts the grace time (NamespaceConfig::quorum_grace) of the key's round of
  // `step`: when it is over, a quorum closes the round. Does nothing in a
  // namespace without a quorum, or if the round is not open.
  void Begin(NamespaceState& state, const StoredKey& key, Step step);
  // Goes by a changed configuration: the grace times that run become longer by
  // `difference`, and those of open rounds that have had no quorum begin.
  void Change(NamespaceState& state, absl::Duration difference);

 private:
  static constexpr size_t kMinRoundsToSweep = 64;

  struct OpenRound {
    absl::Duration grace_end;
    std::string key;
    Step step = 0;
    uint64_t id = 0;
  };

  // Runs when the alarm is due, with the mutex free.
  static void EndDue(NamespaceState& state);
  void Add(const NamespaceState& state, const StoredKey& key, Step step,
           uint64_t id);
  // Sets the alarm for the first end of a grace time.
  void Watch(NamespaceState& state);
  // Returns the key of a round that waits yet; null if it is over or the key is
  // gone.
  static StoredKey* Find(const NamespaceState& state, const OpenRound& round);
  // Forgets rounds that are over, whenever there are twice as many as after the
  // last time.
  void Sweep(const NamespaceState& state);

  // In the order of their grace_end, as all grace times are of one length.
  std::deque<OpenRound> rounds_;
  size_t rounds_to_sweep_ = kMinRoundsToSweep;
  EarliestAlarm alarm_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_GRACE_TIMES_H_
