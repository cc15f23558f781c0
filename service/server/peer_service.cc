#include "service/server/peer_service.h"

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/cluster/snapshot_sweep.h"
#include "service/mirror/peer_call.h"
#include "service/rpc/message_codec.h"

namespace tensorkv {

template <typename Request>
absl::StatusOr<grpc::ByteBuffer> PeerService::TakeStep(
    grpc::ByteBuffer* bytes, const CallContext& context) const {
  Request request;
  RETURN_IF_ERROR(Parse(bytes, parts_.limits, &request));
  ClusterPart* const cluster = parts_.cluster();
  const absl::Status outcome =
      cluster == nullptr
          ? absl::FailedPreconditionError("the server is in no cluster")
          : cluster->Move(request);
  // One line for a step, not for each of the parts.
  if (!std::is_same_v<Request, v1::SendMovePartRequest> || !outcome.ok()) {
    parts_.access->Audit(PeerCall<Request>::kMethod, request.from(),
                         context.caller, outcome);
  }
  RETURN_IF_ERROR(outcome);
  return Serialize(PeerResponse<Request>(), parts_.limits);
}

template <typename Request>
absl::StatusOr<grpc::ByteBuffer> PeerService::TellOfShares(
    grpc::ByteBuffer* bytes) const {
  Request request;
  RETURN_IF_ERROR(Parse(bytes, parts_.limits, &request));
  ASSIGN_OR_RETURN(
      const PeerResponse<Request> response,
      AnswerAboutShares(*parts_.placement, request, *parts_.shares));
  return Serialize(response, parts_.limits);
}

template <typename Request>
void PeerService::Mirror(grpc::ByteBuffer* bytes, Responder respond) const {
  Request request;
  const absl::Status parsed = Parse(bytes, parts_.limits, &request);
  if (!parsed.ok()) return std::move(respond)(parsed);
  parts_.mirrors->Handle(
      request, [limits = parts_.limits, respond = std::move(respond)](
                   absl::StatusOr<PeerResponse<Request>> response) mutable {
        if (!response.ok()) return std::move(respond)(response.status());
        std::move(respond)(Serialize(*response, limits));
      });
}

void PeerService::Handle(Method method, grpc::ByteBuffer* bytes,
                         const CallContext& context, Responder respond) const {
  switch (method) {
#define TENSORKV_CASE(name, ...) \
  case Method::k##name:          \
    return std::move(respond)(TakeStep<v1::name##Request>(bytes, context));
    TENSORKV_MOVE_METHODS(TENSORKV_CASE)
#undef TENSORKV_CASE
#define TENSORKV_CASE(name, ...) \
  case Method::k##name:          \
    return std::move(respond)(TellOfShares<v1::name##Request>(bytes));
    TENSORKV_SHARE_METHODS(TENSORKV_CASE)
#undef TENSORKV_CASE
#define TENSORKV_CASE(name, ...) \
  case Method::k##name:          \
    return Mirror<v1::name##Request>(bytes, std::move(respond));
    TENSORKV_MIRROR_METHODS(TENSORKV_CASE)
#undef TENSORKV_CASE
    default:
      std::move(respond)(absl::InternalError(
          absl::StrCat(NameOf(method), ": expected a call of a server")));
  }
}

}  // namespace tensorkv
