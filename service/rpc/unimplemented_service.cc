#include "service/rpc/unimplemented_service.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "contract/grpc_status.h"

namespace tensorkv {
namespace {

class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerGenericBidiReactor* UnimplementedService::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  return new Refusal(absl::UnimplementedError(
      absl::StrCat("this server does not implement ", context->method())));
}

}  // namespace tensorkv
