// Says whether another server of the cluster may call.

#ifndef TENSORKV_SERVICE_RPC_ADMIT_SERVER_H_
#define TENSORKV_SERVICE_RPC_ADMIT_SERVER_H_

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "service/security/access_control.h"

namespace tensorkv {

// OK for a caller that may make MovePartitions: what servers ask of each other
// takes that right, whatever its service. Errors: those of
// AccessControl::Admit.
absl::Status AdmitServer(const AccessControl& access,
                         const grpc::CallbackServerContext& context);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_ADMIT_SERVER_H_
