// Calls a server from inside of its process.

#ifndef TENSORKV_SERVICE_SERVER_RPC_PROBE_H_
#define TENSORKV_SERVICE_SERVER_RPC_PROBE_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace tensorkv {

// Asks for the server's health, through the threads that serve its calls.
// Thread-safe.
class RpcProbe {
 public:
  explicit RpcProbe(grpc::Server* server);
  // Cancels the call under way and waits for its end.
  ~RpcProbe();

  // Has `done` called when the server has answered. REQUIRES: no other call is
  // under way.
  void Start(absl::AnyInvocable<void() &&> done);

 private:
  using Health = grpc::health::v1::Health;

  void End();

  const std::unique_ptr<Health::Stub> stub_;
  const grpc::health::v1::HealthCheckRequest request_;
  grpc::health::v1::HealthCheckResponse response_;

  Mutex mutex_;
  CondVar ended_;
  // Null while no call is under way.
  std::unique_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
  absl::AnyInvocable<void() &&> done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_RPC_PROBE_H_
