#include "service/mirror/mirror_service.h"

#include "contract/grpc_status.h"

namespace tensorkv {

grpc::ServerUnaryReactor* MirrorService::Call(
    grpc::CallbackServerContext* context, const MirrorRequest* request,
    MirrorResponse* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const absl::Status admitted = admit_(*context);
  if (!admitted.ok()) {
    reactor->Finish(ToGrpcStatus(admitted));
    return reactor;
  }
  handle_(*request, [reactor, response](absl::StatusOr<MirrorResponse> reply) {
    if (reply.ok()) *response = *std::move(reply);
    reactor->Finish(ToGrpcStatus(reply.status()));
  });
  return reactor;
}

}  // namespace tensorkv
