#include "service/cluster/peer_calls.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "contract/grpc_status.h"
#include "contract/method.h"
#include "tensorkv/v1/peer.grpc.pb.h"

namespace tensorkv {
namespace {

constexpr int kMostAttempts = 3;

// The connection to the server that was called last. Confined to one thread.
struct Peer {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Peer::Stub> stub;
};

// Each makes the call of that method.
#define TENSORKV_CALL(name, ...)                                            \
  grpc::Status Call(v1::Peer::Stub& stub, const v1::name##Request& request, \
                    grpc::ClientContext* context) {                         \
    v1::name##Response response;                                            \
    return stub.name(context, request, &response);                          \
  }
TENSORKV_MOVE_METHODS(TENSORKV_CALL)
#undef TENSORKV_CALL

absl::Status CallOnce(v1::Peer::Stub& stub, const MoveRequest& request,
                      absl::Duration timeout) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  return FromGrpcStatus(std::visit(
      [&](const auto& each) { return Call(stub, each, &context); }, request));
}

}  // namespace

CallPeer MakeCallPeer(ConnectPeer connect, absl::Duration timeout) {
  return [connect = std::move(connect), timeout,
          peer = std::make_shared<Peer>()](
             const ClusterServer& server,
             const MoveRequest& request) -> absl::Status {
    if (auto channel = connect(server.address); channel != peer->channel) {
      *peer = {channel, v1::Peer::NewStub(channel)};
    }
    absl::Status status;
    for (int i = 0; i < kMostAttempts; ++i) {
      status = CallOnce(*peer->stub, request, timeout);
      if (!absl::IsUnavailable(status)) break;
    }
    if (status.ok()) return status;
    return absl::Status(status.code(),
                        absl::StrCat("server ", server.name, " (",
                                     server.address, "): ", status.message()));
  };
}

}  // namespace tensorkv
