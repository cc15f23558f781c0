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

// Makes the calls to other servers, at the addresses that the placement has for
// them. Calls to a server without an address fail at once. Thread-safe.
class GrpcMirrorPeers {
 public:
  // A Connect returns a channel to the server at `address`, with the
  // credentials of this one: the same channel until those change. It is called
  // before each call.
  using Connect =
      std::function<std::shared_ptr<grpc::Channel>(const std::string& address)>;
  // A FindAddress returns the address of a server. Errors: Unavailable.
  using FindAddress =
      std::function<absl::StatusOr<std::string>(const std::string& server)>;

  GrpcMirrorPeers(Connect connect, FindAddress find_address);
  // Stops.
  ~GrpcMirrorPeers() { Stop(); }

  // Returns the peer that calls `server`, whether it is there or not. The
  // result may outlive this: then its calls end with Unavailable.
  std::shared_ptr<MirrorPeer> PeerOf(const std::string& server) const;

  // Cancels what is under way, and waits until nothing is. Later calls end with
  // Unavailable. Waits for callbacks: none may call it.
  void Stop();

  class Calls;

 private:
  const std::shared_ptr<Calls> calls_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_GRPC_MIRROR_PEERS_H_
