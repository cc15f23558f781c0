// Does what follows when workers of a namespace are gone.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_MEMBERSHIP_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_MEMBERSHIP_H_

#include <cstdint>

#include "absl/types/span.h"
#include "service/store/keyspace/transaction.h"

namespace tensorkv {

// Does what must happen when workers are lost, whose leases have ended; `ranks`
// rise. OnWorkersGone is to follow.
void LoseWorkers(Transaction& transaction, absl::Span<const uint32_t> ranks);

// Closes rounds and barriers that wait for nobody any more, now that `ranks`
// are gone, ends the pulls that wait for these in vain, and looks at every
// other waiting call.
void OnWorkersGone(Transaction& transaction, absl::Span<const uint32_t> ranks);

// Has an alarm ring when the next lease ends. REQUIRES: the mutex is held.
void SetLeaseAlarm(NamespaceState& state);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_MEMBERSHIP_H_
