// Why no connection could be made. gRPC has one code for all that, so this is
// read from the texts of version 1.51.

#ifndef TENSORKV_CLIENT_INTERNAL_RETRY_CONNECT_ERROR_H_
#define TENSORKV_CLIENT_INTERNAL_RETRY_CONNECT_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/match.h"

namespace tensorkv {

// Returns whether the call has failed because the server's name could not be
// resolved.
inline bool CouldNotResolve(const absl::Status& status) {
  return absl::IsUnavailable(status) &&
         absl::StrContains(status.message(), "DNS resolution failed");
}

// Returns whether the call was not sent, since no connection could be made.
inline bool CouldNotConnect(const absl::Status& status) {
  return CouldNotResolve(status) ||
         (absl::IsUnavailable(status) &&
          absl::StrContains(status.message(), "failed to connect to all"));
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_RETRY_CONNECT_ERROR_H_
