// Says when a refused call is to be made again.

#ifndef TENSORKV_CONTRACT_RETRY_DELAY_H_
#define TENSORKV_CONTRACT_RETRY_DELAY_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tensorkv {

// The trailer that tells other gRPC clients the delay, in milliseconds.
inline constexpr char kRetryPushbackMetadata[] = "grpc-retry-pushback-ms";

// Returns `status`, of a call that has had no effect, with a
// google.rpc.RetryInfo that says that the call may be made again after `delay`,
// from 0 to 10 minutes.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);

// Returns the delay of a status; nothing if it has none; InfiniteDuration,
// which asks for no repeat, if the delay is malformed or out of range.
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_RETRY_DELAY_H_
