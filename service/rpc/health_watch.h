// One Watch call of the health checking protocol.

#ifndef TENSORKV_SERVICE_RPC_HEALTH_WATCH_H_
#define TENSORKV_SERVICE_RPC_HEALTH_WATCH_H_

#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "base/mutex.h"
#include "grpc/health/v1/health.pb.h"
#include "grpcpp/grpcpp.h"

namespace tensorkv {

// Streams states to one watcher. A state that changes again before it is sent
// is skipped. Thread-safe; deletes itself when gRPC is done with the call.
//
// Invariants:
// 1. At most one write is under way; `sent_` belongs to gRPC while it is.
// 2. Finish is called once, with no write under way.
class HealthWatch final
    : public grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse> {
 public:
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  // `on_done` runs before the watch deletes itself.
  HealthWatch(Status status, std::function<void(HealthWatch*)> on_done);

  // Sends `status`, if it is news.
  void Send(Status status);
  // Ends the call once everything is sent.
  void End();

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  enum class Action { kNone, kWrite, kFinish };

  // Makes a change with the lock held, then what follows from it.
  void Change(absl::FunctionRef<void()> change) ABSL_LOCKS_EXCLUDED(mutex_);
  // Gives up sending.
  void Abandon() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Action NextAction() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<void(HealthWatch*)> on_done_;
  Mutex mutex_;
  Status wanted_ ABSL_GUARDED_BY(mutex_);
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::health::v1::HealthCheckResponse sent_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_HEALTH_WATCH_H_
