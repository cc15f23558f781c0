// Serves the calls of other servers of a group.

#ifndef TENSORKV_SERVICE_MIRROR_MIRROR_SERVICE_H_
#define TENSORKV_SERVICE_MIRROR_MIRROR_SERVICE_H_

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/grpcpp.h"
#include "mirror.grpc.pb.h"
#include "service/mirror/mirror_group.h"

namespace tensorkv {

// The service tensorkv.mirror.v1.Mirror on gRPC's callback API. Thread-safe.
class MirrorService final : public mirror::v1::Mirror::CallbackService {
 public:
  // An Admit tells whether the caller may call; see MovePartitions.
  using Admit = std::function<absl::Status(const grpc::CallbackServerContext&)>;
  using Take =
      std::function<void(const MirrorRequest& request, MirrorCallback done)>;

  MirrorService(Admit admit, Take take)
      : admit_(std::move(admit)), take_(std::move(take)) {}

  grpc::ServerUnaryReactor* Call(grpc::CallbackServerContext* context,
                                 const MirrorRequest* request,
                                 MirrorResponse* response) override;

 private:
  const Admit admit_;
  const Take take_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_MIRROR_SERVICE_H_
