// Says what an error tells a worker whose call has ended with it.

#ifndef TENSORKV_CLIENT_INTERNAL_WORKER_WORKER_ERRORS_H_
#define TENSORKV_CLIENT_INTERNAL_WORKER_WORKER_ERRORS_H_

#include "absl/status/status.h"

namespace tensorkv {

// Returns whether the worker is no member of the group, or no longer
// (NOT_MEMBER, LEASE_LOST).
bool IsNoMember(const absl::Status& status);

// Returns whether the server may be another incarnation, which knows no more of
// a call than its checkpoint does.
bool MayMeanRestart(const absl::Status& status);

// Returns whether the worker has to join before another attempt: the error is
// one that IsNoMember or MayMeanRestart tells.
bool NeedsToJoin(const absl::Status& status);

// Returns whether there is no such namespace, or only another one of its name.
bool IsAnotherNamespace(const absl::Status& status);

// Returns whether a round has no use for the contribution any more, or never
// will have.
bool IsObsolete(const absl::Status& status);

// Returns whether the call may have been made although it failed.
bool IsUncertain(const absl::Status& status);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_WORKER_WORKER_ERRORS_H_
