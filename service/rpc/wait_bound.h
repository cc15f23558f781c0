// Bounds how long the store may let a call wait.

#ifndef TENSORKV_SERVICE_RPC_WAIT_BOUND_H_
#define TENSORKV_SERVICE_RPC_WAIT_BOUND_H_

#include <chrono>

#include "absl/time/time.h"

namespace tensorkv {

// Returns how long a call may wait whose caller's deadline seems `remaining`
// away. That is a little less, so that the status which names what was missing
// reaches the caller before the caller gives up: by 10 %, at most 200 ms and 1
// %. (gRPC rounds timeouts up by as much as 1 % when it sends them.) Never
// negative.
absl::Duration WaitBound(absl::Duration remaining);

// Returns the WaitBound, from now, of a call with this deadline; infinite if it
// has none.
absl::Duration TimeLeft(std::chrono::system_clock::time_point deadline);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_WAIT_BOUND_H_
