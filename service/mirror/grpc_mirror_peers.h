// The other servers of a group, over gRPC.

#ifndef TENSORKV_SERVICE_MIRROR_GRPC_MIRROR_PEERS_H_
#define TENSORKV_SERVICE_MIRROR_GRPC_MIRROR_PEERS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "service/mirror/mirror_group.h"

namespace tensorkv {

// Makes calls at servers, wherever the placement has them. A server that is not
// there fails them at once. Thread-safe.
class GrpcMirrorPeers {
 public:
  // A Connect connects a server to others, and proves who it is: by the same
  // channel for as long as that is as it was. It is asked before each call.
  using Connect =
      std::function<std::shared_ptr<grpc::Channel>(const std::string& address)>;
  // Errors: Unavailable.
  using FindAddress =
      std::function<absl::StatusOr<std::string>(const std::string& server)>;

  GrpcMirrorPeers(Connect connect, FindAddress find_address);
  // Stops.
  ~GrpcMirrorPeers() { Stop(); }

  // May outlive this: then its calls end with Unavailable.
  std::shared_ptr<MirrorPeer> PeerOf(const std::string& server) const;

  // Cancels what is under way, and waits until nothing is. Later calls end with
  // Unavailable. Not for a callback to call.
  void Stop();

  class Calls;

 private:
  const std::shared_ptr<Calls> calls_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_GRPC_MIRROR_PEERS_H_
