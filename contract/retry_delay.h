// When a refused call is to be made again.

#ifndef TENSORKV_CONTRACT_RETRY_DELAY_H_
#define TENSORKV_CONTRACT_RETRY_DELAY_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tensorkv {

// The trailer that says the same to other clients, in milliseconds.
inline constexpr char kRetryPushbackMetadata[] = "grpc-retry-pushback-ms";

// `status`, of a call that has had no effect, with a google.rpc.RetryInfo: the
// call may be made again after `delay`, from 0 to 10 minutes.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);

// Nothing if the status has none; InfiniteDuration if that is malformed or out
// of range, which asks for no repeat.
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_RETRY_DELAY_H_
