// Calls of a server to the others of its cluster.

#ifndef TENSORKV_SERVICE_CLUSTER_PEER_CALLS_H_
#define TENSORKV_SERVICE_CLUSTER_PEER_CALLS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "contract/placement.h"
#include "contract/requests.h"
#include "grpcpp/grpcpp.h"
#include "service/cluster/partition_sender.h"

namespace tensorkv {

// A ConnectPeer connects a server to others, and proves who it is: by the same
// channel for as long as that is as it was. It is asked before each call.
using ConnectPeer =
    std::function<std::shared_ptr<grpc::Channel>(const std::string& address)>;

// Makes calls over connections that `connect` makes, each attempt within
// `timeout`, and some attempts while the other does not answer.
CallPeer MakeCallPeer(ConnectPeer connect, absl::Duration timeout);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_PEER_CALLS_H_
