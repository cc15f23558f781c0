#include "client/cluster/connect.h"

#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "client/client_observer.h"
#include "client/cluster/cluster_connection.h"
#include "client/cluster/cluster_target.h"
#include "client/internal/calls/metered_connection.h"
#include "client/internal/retry/retrying_connection.h"
#include "client/internal/steady_now.h"

namespace tensorkv {
namespace {

// Opens a connection whose calls are made once. It is metered inside the
// retries, so that the metrics show each attempt.
absl::StatusOr<std::unique_ptr<Connection>> ConnectOnce(
    const GrpcConnectionOptions& options,
    std::shared_ptr<ClientObserver> observer) {
  ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection,
                   GrpcConnection::Create(options));
  if (observer == nullptr) return connection;
  return std::make_unique<MeteredConnection>(std::move(connection),
                                             std::move(observer), SteadyNow);
}

absl::StatusOr<std::unique_ptr<Connection>> ConnectToCluster(
    const GrpcConnectionOptions& options,
    std::shared_ptr<ClientObserver> observer, const Backoff& backoff) {
  ASSIGN_OR_RETURN(std::vector<std::string> addresses,
                   ParseClusterTarget(options.target));
  const auto connect = [options, observer = std::move(observer)](
                           const std::string& address,
                           std::shared_ptr<ServerIncarnation> known) {
    GrpcConnectionOptions there = options;
    there.target = address;
    there.server = std::move(known);
    return ConnectOnce(there, observer);
  };
  // Options that cannot work show here and not at the first call.
  RETURN_IF_ERROR(connect(addresses.front(), nullptr).status());
  return std::make_unique<ClusterConnection>(
      ClusterServersOptions{.addresses = std::move(addresses),
                            .connect = connect,
                            .backoff = backoff});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> ConnectTo(
    const GrpcConnectionOptions& options,
    std::shared_ptr<ClientObserver> observer, const Backoff& backoff) {
  if (IsClusterTarget(options.target)) {
    return ConnectToCluster(options, std::move(observer), backoff);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection,
                   ConnectOnce(options, std::move(observer)));
  return std::make_unique<RetryingConnection>(std::move(connection), backoff,
                                              SystemRetryEnvironment());
}

}  // namespace tensorkv
