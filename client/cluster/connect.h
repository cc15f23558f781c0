// Connections as users of the client have them.

#ifndef TENSORKV_CLIENT_CLUSTER_CONNECT_H_
#define TENSORKV_CLIENT_CLUSTER_CONNECT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/connection.h"
#include "client/internal/retry/retry_loop.h"
#include "client/internal/transfer/grpc_connection.h"

namespace tensorkv {

class ClientObserver;

// Returns a connection to a server, or where the target is "cluster:..." to all
// servers of a cluster, which repeats calls. `observer`, which may be null, is
// told of each attempt. Connects at the first call.
//
// Calls pass the same layers in both cases: for a cluster alone, what routes
// them to servers; at each server, the retries; what meters an attempt; the
// channel. So a share of a call is repeated by itself: retries around the
// router would make those shares again that other servers have taken. Errors:
// InvalidArgument for options that cannot work.
absl::StatusOr<std::unique_ptr<Connection>> ConnectTo(
    const GrpcConnectionOptions& options,
    std::shared_ptr<ClientObserver> observer, const Backoff& backoff);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_CONNECT_H_
