// Says who makes a call, and admits it.

#ifndef TENSORKV_SERVICE_RPC_CALLER_H_
#define TENSORKV_SERVICE_RPC_CALLER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
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

// Checks that the caller may call `method`, and fills in `caller`: its name, as
// AccessControl::Identify does, the trace that it states, and a record where
// calls that take `slow_call` are to be logged. If `access` is null, everybody
// is anonymous and may do everything. Errors: those of Identify.
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
  return access->Identify(method, PeerOf(context), caller);
}

// Takes `load` from the caller's quota, or from that of its host if it has no
// identity, as AccessControl::TakeShare does; an empty share if `access` is
// null. Destroying the share gives it back. Errors: ResourceExhausted.
inline absl::StatusOr<CallerQuotas::Share> TakeShare(
    const AccessControl* access, const grpc::CallbackServerContext& context,
    const Caller& caller, const CallerLoad& load) {
  if (access == nullptr) return CallerQuotas::Share();
  return access->TakeShare(caller, load,
                           [&context] { return PeerHostOf(context.peer()); });
}

// Returns the name by which calls of the caller share threads with those of
// others: its identity, however many connections it opens; without one its
// host, as for quotas. On this host, where nothing tells callers apart, each
// connection has a share: what may connect here can take the cores anyway.
inline std::string TaskOwnerOf(const Caller& caller, const std::string& peer) {
  if (caller.name != kAnonymous) return caller.name;
  std::string host = PeerHostOf(peer);
  const bool is_here = absl::StartsWith(host, "127.") || host == "::" ||
                       absl::StartsWith(peer, "unix");
  return is_here ? peer : host;
}

// Adds the retry delay of an error, if it has one, to the trailing metadata,
// for clients that do not look into the status. REQUIRES: the call is not
// finished.
inline void AddRetryPushback(const absl::Status& status,
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
