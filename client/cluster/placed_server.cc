#include "client/cluster/placed_server.h"

#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/error_from.h"
#include "base/status_macros.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

// No server says so.
constexpr char kWasCalled[] = "was_called";

// One that was never called there surely was not made there.
absl::Status IsNoMore(const std::string& name, uint64_t placement_version,
                      bool was_called) {
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        "server \"", name, "\": is in the cluster no more",
                        was_called ? ", and does not answer" : "")),
                    Reason::kWrongServer,
                    {{"placement_version", placement_version},
                     {kWasCalled, was_called ? "true" : "false"}});
}

}  // namespace

bool MayHaveReachedRemovedServer(const absl::Status& status) {
  std::optional<ErrorInfo> info = ErrorInfoOf(status);
  return info && info->reason == Reason::kWrongServer &&
         info->metadata[kWasCalled] == "true";
}

bool IsOfRemovedServer(const absl::Status& status) {
  const std::optional<ErrorInfo> info = ErrorInfoOf(status);
  return info && info->reason == Reason::kWrongServer &&
         info->metadata.contains(kWasCalled);
}

Task<absl::Status> PlacedServer::Make(AnyCall call, CallOptions options,
                                      CallThreads* threads) {
  const CallLimit limit(options, threads);
  CO_ASSIGN_OR_RETURN(const Endpoint endpoint, ResolveEndpoint());
  absl::Status status =
      co_await MadeCall(*endpoint.connection, call, options, threads);
  if (status.ok()) co_return status;
  if (absl::IsCancelled(status) && !limit.IsCancelled()) {
    status = absl::UnavailableError("the server has ended the call");
  }
  if (absl::IsUnavailable(status) && endpoint.left_by != 0) {
    co_return IsNoMore(name_, endpoint.left_by, /*was_called=*/true);
  }
  if (absl::IsUnavailable(status)) {
    // Where nobody answers, all stays as it is known.
    [[maybe_unused]] const absl::StatusOr<PlacementPtr> newest =
        co_await source_.Refresh(0, limit);
  }
  // One that is in no cluster is all that its client knows.
  if (name_.empty()) co_return status;
  co_return ErrorFrom(
      absl::StrCat("server \"", name_, "\" (", endpoint.address, ")"), status);
}

absl::StatusOr<PlacedServer::Endpoint> PlacedServer::ResolveEndpoint() {
  const PlacementPtr placement = source_.Known();
  const auto found = absl::c_find_if(
      placement->servers,
      [this](const ClusterServer& server) { return server.name == name_; });
  Endpoint endpoint;
  {
    MutexLock lock(&mutex_);
    endpoint = endpoint_;
  }
  if (found == placement->servers.end()) {
    // It may have the answer to a call that is repeated.
    endpoint.left_by = placement->version;
    if (endpoint.connection != nullptr) return endpoint;
    return IsNoMore(name_, placement->version, /*was_called=*/false);
  }
  if (endpoint.address == found->address) return endpoint;
  endpoint = {.address = found->address};
  ASSIGN_OR_RETURN(endpoint.connection, connect_(endpoint.address, known_));
  MutexLock lock(&mutex_);
  // The former one goes after the lock.
  if (endpoint_.address != endpoint.address) std::swap(endpoint_, endpoint);
  return endpoint_;
}

}  // namespace tensorkv
