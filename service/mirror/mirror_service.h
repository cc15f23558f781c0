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
  // An Admit returns OK if the caller may make a mirror call: the right is that
  // of MovePartitions.
  using Admit = std::function<absl::Status(const grpc::CallbackServerContext&)>;
  // A Handle answers a call by calling `done` once, on any thread. `request` is
  // good until then.
  using Handle =
      std::function<void(const MirrorRequest& request, MirrorCallback done)>;

  MirrorService(Admit admit, Handle handle)
      : admit_(std::move(admit)), handle_(std::move(handle)) {}

  grpc::ServerUnaryReactor* Call(grpc::CallbackServerContext* context,
                                 const MirrorRequest* request,
                                 MirrorResponse* response) override;

 private:
  const Admit admit_;
  const Handle handle_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_MIRROR_SERVICE_H_
