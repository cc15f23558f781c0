// gRPC's health checking protocol.

#ifndef TENSORKV_SERVICE_RPC_HEALTH_SERVICE_H_
#define TENSORKV_SERVICE_RPC_HEALTH_SERVICE_H_

#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace tensorkv {

// Answers health checks with one state for a fixed set of services: NOT_SERVING
// at first, then what was set last, and NOT_SERVING for good from Shutdown on.
// A service outside of the set is NotFound. Thread-safe.
//
// Not gRPC's built-in service: that one is switched on for a whole process, and
// its watches hold up a graceful shutdown until the grace is over. This one has
// no watches: who calls Watch is answered Unimplemented, and calls Check.
class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  // The empty name, which means the server as a whole, is added to `services`.
  // The service outlives the server that it is registered with.
  explicit HealthService(std::set<std::string> services);

  // Sets the state to SERVING. Does nothing after Shutdown.
  void SetServing();
  // Sets the state to NOT_SERVING, until SetServing.
  void SetNotServing();
  // Sets the state to NOT_SERVING for good. Does not stop any server.
  void Shutdown();

  grpc::ServerUnaryReactor* Check(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request,
      grpc::health::v1::HealthCheckResponse* response) override;

 private:
  const std::set<std::string> services_;
  Mutex mutex_;
  bool is_shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_serving_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_HEALTH_SERVICE_H_
