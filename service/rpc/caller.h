// Who makes a call, and whether it may.

#ifndef TENSORKV_SERVICE_RPC_CALLER_H_
#define TENSORKV_SERVICE_RPC_CALLER_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "contract/method.h"
#include "grpcpp/server_context.h"
#include "service/rpc/peer_credentials.h"
#include "service/rpc/trace_context.h"
#include "service/security/access_control.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// As AccessControl::Admit, of a caller that may tell its trace. Without an
// `access` everybody is anonymous and may do everything. A call that takes
// `slow_call` is noted.
inline absl::Status AdmitCaller(const AccessControl* access, Method method,
                                const grpc::CallbackServerContext& context,
                                absl::Duration slow_call, Caller& caller) {
  const auto& metadata = context.client_metadata();
  const auto trace = metadata.find(kTraceParentMetadata);
  if (trace != metadata.end()) {
    caller.trace =
        ParseTraceParent({trace->second.data(), trace->second.size()});
  }
  if (slow_call < absl::InfiniteDuration()) {
    caller.notes = std::make_shared<CallNotes>(slow_call);
  }
  if (access == nullptr) return absl::OkStatus();
  return access->Admit(method, PeerOf(context), caller);
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_CALLER_H_
