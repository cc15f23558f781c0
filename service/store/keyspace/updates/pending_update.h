// Holds what waits in the queue of a key.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_PENDING_UPDATE_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_PENDING_UPDATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "base/ref_counted.h"
#include "contract/requests.h"
#include "service/store/byte_budget.h"
#include "service/store/keyspace/rounds/contribution.h"
#include "service/store/keyspace/updates/key_access.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// A push, a read of rows or a call about states, whose answer waits for the
// last of its updates or accesses. Guarded by the namespace's mutex.
struct QueuedCall : RefCounted {
  PushReply reply;
  absl::Status status;
  size_t num_pending = 0;
  size_t num_applied = 0;
  ReplyCallback<PushReply> done;
  // True if `done` goes on with a pull, which may take long.
  bool is_followed = false;
};

// One update of one key, ready to run.
struct PendingUpdate {
  // Added in this order, unless these fields say more; at least one.
  Slots slots;
  // Say what TensorUpdate and ContributionWeights say; unset: no mean.
  uint32_t num_averaged = 0;
  std::optional<double> total_weight;
  // Count the contributions until the update has run.
  Reservation tensor_reservation;
  Reservation overhead;
  // Pays for a new value buffer, should somebody read the present one.
  Reservation value_reservation;

  // Async: whose reply waits, and which of its results this update produces.
  RefPtr<QueuedCall> call;
  absl::InlinedVector<uint32_t, 1> results;

  // Sync: the round that closed; 0 in the other modes.
  Step round = 0;

  // Was given when the change was admitted; 0 for accesses that write nothing.
  uint64_t revision = 0;

  // Not null: no update, and no slots. Its call waits for the access's end; a
  // copy for snapshots has none.
  RefPtr<KeyAccess> access;

  bool is_copy() const { return access && !call; }
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_PENDING_UPDATE_H_
