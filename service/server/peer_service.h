// Answers what other servers of the cluster ask of a server.

#ifndef TENSORKV_SERVICE_SERVER_PEER_SERVICE_H_
#define TENSORKV_SERVICE_SERVER_PEER_SERVICE_H_

#include <functional>
#include <utility>

#include "absl/status/statusor.h"
#include "contract/method.h"
#include "grpcpp/support/byte_buffer.h"
#include "service/cluster/known_placement.h"
#include "service/mirror/mirror_exchange.h"
#include "service/rpc/handlers.h"
#include "service/rpc/message_limits.h"
#include "service/security/access_control.h"
#include "service/server/cluster_part.h"
#include "service/store/snapshot_shares.h"

namespace tensorkv {

// Answers the calls of TENSORKV_PEER_METHODS, and audits moves. Checks no
// right: AccessControl::Identify has checked that for the whole server.
// Thread-safe.
class PeerService {
 public:
  // Parts holds what outlives the calls.
  struct Parts {
    MirrorExchange* mirrors = nullptr;
    // Returns null if the server is in no cluster, or not yet.
    std::function<ClusterPart*()> cluster;
    const KnownPlacement* placement = nullptr;
    SnapshotShares* shares = nullptr;
    const AccessControl* access = nullptr;
    MessageLimits limits;
  };

  explicit PeerService(Parts parts) : parts_(std::move(parts)) {}

  // Handles the call as Handler::run does. Blocks for TENSORKV_MOVE_METHODS.
  // Errors: those of the method · Internal for a method of another service.
  void Handle(Method method, grpc::ByteBuffer* bytes,
              const CallContext& context, Responder respond) const;

 private:
  // TakeStep answers a call of TENSORKV_MOVE_METHODS, TellOfShares one of
  // TENSORKV_SHARE_METHODS, and Mirror one of TENSORKV_MIRROR_METHODS.
  template <typename Request>
  absl::StatusOr<grpc::ByteBuffer> TakeStep(grpc::ByteBuffer* bytes,
                                            const CallContext& context) const;
  template <typename Request>
  absl::StatusOr<grpc::ByteBuffer> TellOfShares(grpc::ByteBuffer* bytes) const;
  template <typename Request>
  void Mirror(grpc::ByteBuffer* bytes, Responder respond) const;

  const Parts parts_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_PEER_SERVICE_H_
