#include "client/cluster/placed_server.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/internal/steady_now.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

// `status` with the server in front, and the reason that it has.
absl::Status Named(const absl::Status& status, const std::string& name,
                   const std::string& address) {
  // One that is in no cluster is all that its client knows.
  if (name.empty()) return status;
  absl::Status named(status.code(),
                     absl::StrCat("server \"", name, "\" (", address,
                                  "): ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    named.SetPayload(url, payload);
  });
  return named;
}

}  // namespace

absl::Status PlacedServer::Attempt(const AnyCall& call,
                                   const CallOptions& options) {
  const absl::Duration end = SteadyNow() + options.timeout;
  ASSIGN_OR_RETURN(const Place place, Find(options));
  const absl::Status status = place.connection->Attempt(call, options);
  if (status.ok()) return status;
  if (absl::IsUnavailable(status)) {
    // Where nobody answers, all stays as it is known.
    source_
        .Refresh(0,
                 {.timeout = end - SteadyNow(), .canceller = options.canceller})
        .status()
        .IgnoreError();
  }
  return Named(status, name_, place.address);
}

absl::StatusOr<PlacedServer::Place> PlacedServer::Find(
    const CallOptions& options) {
  ASSIGN_OR_RETURN(const PlacementPtr placement, source_.Current(options));
  const auto found = absl::c_find_if(
      placement->servers,
      [this](const ClusterServer& server) { return server.name == name_; });
  if (found == placement->servers.end()) {
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          "server \"", name_, "\": is in the cluster no more")),
                      Reason::kWrongServer,
                      {{"placement_version", placement->version}});
  }
  MutexLock lock(&mutex_);
  if (place_.address != found->address) {
    ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection,
                     connect_(found->address, known_));
    place_ = {found->address, std::move(connection)};
  }
  return place_;
}

}  // namespace tensorkv
