#include "service/cluster/peer_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "contract/grpc_status.h"
#include "contract/proto_codec.h"
#include "tensorkv/v1/service.grpc.pb.h"

namespace tensorkv {
namespace {

constexpr int kMostAttempts = 3;

// The connection to the server that was called last. Confined to one thread.
struct Peer {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::TensorKV::Stub> stub;
};

absl::Status CallOnce(v1::TensorKV::Stub& stub,
                      const v1::MovePartitionsRequest& request,
                      absl::Duration timeout) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  v1::MovePartitionsResponse response;
  return FromGrpcStatus(stub.MovePartitions(&context, request, &response));
}

}  // namespace

CallPeer MakeCallPeer(ConnectPeer connect, absl::Duration timeout) {
  return [connect = std::move(connect), timeout,
          peer = std::make_shared<Peer>()](
             const ClusterServer& server,
             const MovePartitionsRequest& request) -> absl::Status {
    if (auto channel = connect(server.address); channel != peer->channel) {
      *peer = {channel, v1::TensorKV::NewStub(channel)};
    }
    v1::MovePartitionsRequest message;
    ToProto(request, &message);
    absl::Status status;
    for (int i = 0; i < kMostAttempts; ++i) {
      status = CallOnce(*peer->stub, message, timeout);
      if (!absl::IsUnavailable(status)) break;
    }
    if (status.ok()) return status;
    return absl::Status(status.code(),
                        absl::StrCat("server ", server.name, " (",
                                     server.address, "): ", status.message()));
  };
}

}  // namespace tensorkv
