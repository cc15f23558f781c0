// One alarm for the earliest of many times.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_EARLIEST_ALARM_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_EARLIEST_ALARM_H_

#include "absl/time/time.h"
#include "base/alarms.h"

namespace tensorkv {

struct NamespaceState;

// An alarm of a namespace for the earliest of the times that were asked for.
// Guarded by the mutex of whoever has it. If it rings after the namespace has
// gone, nothing happens.
class EarliestAlarm {
 public:
  // Has `ring` called at `when`, on the alarms' thread and without the mutex,
  // in place of a later time that was set. Does nothing if an earlier time is
  // set: the `ring` of that time must ask again for what is due later. All
  // callers of one object pass the same `ring`.
  void RingAt(absl::Duration when, NamespaceState& state,
              void (*ring)(NamespaceState& state));

  // Records that the alarm has rung, so that RingAt can set it again. REQUIRES:
  // `ring` calls this before RingAt, with the mutex held.
  void MarkRung() { *this = {}; }

 private:
  // 0 while nothing is scheduled.
  Alarms::Id id_ = 0;
  absl::Duration time_ = absl::InfiniteDuration();
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_EARLIEST_ALARM_H_
