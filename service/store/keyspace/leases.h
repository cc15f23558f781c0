// The workers of a namespace: they join, stay, leave, or are lost.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_LEASES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_LEASES_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/requests.h"
#include "service/store/keyspace/namespace_state.h"

namespace tensorkv {

// As in Membership.
absl::StatusOr<JoinReply> Join(NamespaceState& state,
                               const JoinRequest& request);
absl::StatusOr<KeepAliveReply> KeepAlive(NamespaceState& state,
                                         const KeepAliveRequest& request);
absl::Status Leave(NamespaceState& state, const LeaveRequest& request);

// Whether `worker`, if there is one, may call; if so, renews its lease.
// REQUIRES: the mutex is held.
absl::Status CheckAndRenew(NamespaceState& state,
                           const std::optional<Worker>& worker);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_LEASES_H_
