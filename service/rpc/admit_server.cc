#include "service/rpc/admit_server.h"

#include "contract/method.h"
#include "service/rpc/caller.h"

namespace tensorkv {

absl::Status AdmitServer(const AccessControl& access,
                         const grpc::CallbackServerContext& context) {
  Caller caller;
  return AdmitCaller(&access, Method::kMovePartitions, context,
                     absl::InfiniteDuration(), caller);
}

}  // namespace tensorkv
