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

// Calls Check of the server's health service, through the threads that serve
// its calls. Whatever the answer, the server has come round to it. Thread-safe.
class RpcProbe {
 public:
  explicit RpcProbe(grpc::Server* server);
  ~RpcProbe() { Stop(); }

  // Cancels the call under way, waits for its end, and makes no other. Comes
  // before the server's shutdown: gRPC 1.51 crashes when a call within the
  // process begins after that.
  void Stop();

  // Begins a call, and has `done` called, on a thread of gRPC, when the call
  // has ended, be it cancelled by Stop. After Stop does nothing. REQUIRES: no
  // other call is under way.
  void Start(absl::AnyInvocable<void() &&> done);

 private:
  using Health = grpc::health::v1::Health;

  void End();

  const std::unique_ptr<Health::Stub> stub_;
  const grpc::health::v1::HealthCheckRequest request_;
  grpc::health::v1::HealthCheckResponse response_;

  Mutex mutex_;
  CondVar ended_;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  // Null while the server has no call to answer.
  std::unique_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
  // Counts the calls whose End has not returned: one, or for moments two.
  int num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::AnyInvocable<void() &&> done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_RPC_PROBE_H_
