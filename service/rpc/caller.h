// Says who makes a call, and admits it.

#ifndef TENSORKV_SERVICE_RPC_CALLER_H_
#define TENSORKV_SERVICE_RPC_CALLER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "contract/method.h"
#include "contract/retry_delay.h"
#include "grpcpp/server_context.h"
#include "service/rpc/peer_credentials.h"
#include "service/rpc/trace_context.h"
#include "service/security/access_control.h"
#include "service/security/caller_quotas.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Admits a caller as AccessControl::Admit does, one that may tell its trace.
// Without an `access` everybody is anonymous and may do everything. The caller
// gets a record where calls that take `slow_call` are to be logged.
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
    caller.record = std::make_shared<CallRecord>(slow_call);
  }
  if (access == nullptr) return absl::OkStatus();
  return access->Admit(method, PeerOf(context), caller);
}

// Admits another server of the cluster: what servers ask of each other takes
// the right to make MovePartitions, whatever its service.
inline absl::Status AdmitServer(const AccessControl& access,
                                const grpc::CallbackServerContext& context) {
  Caller caller;
  return AdmitCaller(&access, Method::kMovePartitions, context,
                     absl::InfiniteDuration(), caller);
}

// Takes a share as AccessControl::TakeShare does, of callers without an
// identity by their hosts.
inline absl::StatusOr<CallerQuotas::Share> TakeShare(
    const AccessControl* access, const grpc::CallbackServerContext& context,
    const Caller& caller, const CallerLoad& load) {
  if (access == nullptr) return CallerQuotas::Share();
  return access->TakeShare(caller, load,
                           [&context] { return PeerHostOf(context.peer()); });
}

// Tells also clients who do not look into the status when they may try again.
// Before the call is finished.
inline void TellRetryDelay(const absl::Status& status,
                           grpc::CallbackServerContext& context) {
  if (status.ok()) return;
  const std::optional<absl::Duration> delay = RetryDelayOf(status);
  if (!delay) return;
  context.AddTrailingMetadata(
      kRetryPushbackMetadata,
      std::to_string(absl::ToInt64Milliseconds(*delay)));
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_CALLER_H_
