#include "service/store/keyspace/earliest_alarm.h"

#include "service/store/keyspace/namespace_state.h"

namespace tensorkv {

void EarliestAlarm::RingAt(absl::Duration when, NamespaceState& state,
                           void (*ring)(NamespaceState& state)) {
  if (when >= time_) return;
  if (id_ != 0) state.environment.alarms->Cancel(id_);
  time_ = when;
  id_ = state.environment.alarms->Schedule(
      when, [weak_state = state.weak_from_this(), ring] {
        if (const auto state = weak_state.lock()) ring(*state);
      });
}

}  // namespace tensorkv
