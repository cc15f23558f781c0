// Calls of a server to the others of its cluster.

#ifndef TENSORKV_SERVICE_CLUSTER_PEER_CALLS_H_
#define TENSORKV_SERVICE_CLUSTER_PEER_CALLS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "contract/placement.h"
#include "grpcpp/grpcpp.h"
#include "service/cluster/partition_sender.h"

namespace tensorkv {

// A ConnectPeer returns a channel to the server at `address`, with the
// credentials of this one: the same channel until those change. It is called
// before each call.
using ConnectPeer =
    std::function<std::shared_ptr<grpc::Channel>(const std::string& address)>;

// Returns a CallPeer that calls over the channels of `connect`: up to three
// times while the server is Unavailable, each within `timeout`. Errors name the
// server. The result is confined to one thread.
CallPeer MakeCallPeer(ConnectPeer connect, absl::Duration timeout);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_PEER_CALLS_H_
