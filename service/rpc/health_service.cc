#include "service/rpc/health_service.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/shown_text.h"
#include "contract/grpc_status.h"

namespace tensorkv {

using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;

HealthService::HealthService(std::set<std::string> services)
    : services_([&] {
        services.insert("");
        return std::move(services);
      }()) {}

void HealthService::SetServing() {
  MutexLock lock(&mutex_);
  is_serving_ = !is_shut_down_;
}

void HealthService::SetNotServing() {
  MutexLock lock(&mutex_);
  is_serving_ = false;
}

void HealthService::Shutdown() {
  MutexLock lock(&mutex_);
  is_shut_down_ = true;
  is_serving_ = false;
}

grpc::ServerUnaryReactor* HealthService::Check(
    grpc::CallbackServerContext* context, const HealthCheckRequest* request,
    HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (services_.count(request->service()) == 0) {
    // A name that is longer than that of a service would not fit the trailers.
    const std::string name = Quoted(request->service(), 256);
    reactor->Finish(ToGrpcStatus(
        absl::NotFoundError(absl::StrCat("service ", name, " is unknown"))));
    return reactor;
  }
  MutexLock lock(&mutex_);
  response->set_status(is_serving_ ? HealthCheckResponse::SERVING
                                   : HealthCheckResponse::NOT_SERVING);
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace tensorkv
