#include "service/rpc/health_service.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/shown_text.h"
#include "contract/grpc_status.h"
#include "service/rpc/health_watch.h"

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
  if (!is_shut_down_) Set(HealthCheckResponse::SERVING);
}

void HealthService::SetNotServing() {
  MutexLock lock(&mutex_);
  Set(HealthCheckResponse::NOT_SERVING);
}

void HealthService::Shutdown() {
  MutexLock lock(&mutex_);
  is_shut_down_ = true;
  Set(HealthCheckResponse::NOT_SERVING);
  for (const auto& [watch, is_known] : watches_) watch->End();
}

void HealthService::Set(Status status) {
  status_ = status;
  for (const auto& [watch, is_known] : watches_) {
    if (is_known) watch->Send(status_);
  }
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
  response->set_status(status_);
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(
    grpc::CallbackServerContext*, const HealthCheckRequest* request) {
  const bool is_known = services_.count(request->service()) != 0;
  MutexLock lock(&mutex_);
  auto* watch =
      new HealthWatch(is_known ? status_ : HealthCheckResponse::SERVICE_UNKNOWN,
                      [this](HealthWatch* done) { Remove(done); });
  watches_.emplace(watch, is_known);
  if (is_shut_down_) watch->End();
  return watch;
}

void HealthService::Remove(HealthWatch* watch) {
  MutexLock lock(&mutex_);
  watches_.erase(watch);
}

}  // namespace tensorkv
