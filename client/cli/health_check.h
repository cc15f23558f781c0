// Asks a server whether it serves.

#ifndef TENSORKV_CLIENT_CLI_HEALTH_CHECK_H_
#define TENSORKV_CLIENT_CLI_HEALTH_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/credentials.h"

namespace tensorkv {

// Calls grpc.health.v1.Health.Check for the server as a whole, or for each
// server that a target "cluster:..." names. Waits for at most `timeout` for
// each answer. OK where it is SERVING. Errors: Unavailable (no server, or
// another answer, which the message names) and those of the call.
absl::Status CheckHealth(const std::string& target,
                         const Credentials& credentials,
                         absl::Duration timeout);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_HEALTH_CHECK_H_
