// One alarm for the earliest of many times.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_EARLIEST_ALARM_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_EARLIEST_ALARM_H_

#include "absl/time/time.h"
#include "base/alarms.h"

namespace tensorkv {

struct NamespaceState;

// Guarded by the mutex of its namespace, whose end it does not outlast: an
// alarm that rings later does nothing.
class EarliestAlarm {
 public:
  // Calls `ring` at `when`, on the alarms' thread and without the mutex, unless
  // it rings at an earlier time anyway: then whoever it calls asks again.
  void RingAt(absl::Duration when, NamespaceState& state,
              void (*ring)(NamespaceState& state));

  // REQUIRES: `ring` is being called; it says so first of all.
  void MarkRung() { *this = {}; }

 private:
  // 0 while nothing is scheduled.
  Alarms::Id id_ = 0;
  absl::Duration time_ = absl::InfiniteDuration();
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_EARLIEST_ALARM_H_
