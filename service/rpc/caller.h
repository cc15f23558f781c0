// Who makes a call, and whether it may.

#ifndef TENSORKV_SERVICE_RPC_CALLER_H_
#define TENSORKV_SERVICE_RPC_CALLER_H_

#include "absl/status/status.h"
#include "contract/method.h"
#include "grpcpp/server_context.h"
#include "service/rpc/peer_credentials.h"
#include "service/security/access_control.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// As AccessControl::Admit. Without an `access` everybody is anonymous and may
// do everything.
inline absl::Status AdmitCaller(const AccessControl* access, Method method,
                                const grpc::CallbackServerContext& context,
                                Caller& caller) {
  if (access == nullptr) return absl::OkStatus();
  return access->Admit(method, PeerOf(context), caller);
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_CALLER_H_
