#include "client/internal/retry_loop.h"

#include "client/internal/random_bytes.h"
#include "client/internal/steady_now.h"
#include "grpc/support/time.h"
#include "grpcpp/completion_queue.h"

namespace tensorkv {
namespace {

// With gRPC 1.51 and its epoll1 poller a thread that waits at any completion
// queue drives all connections of the process. When none does, only a backup
// poller looks at them, every 5 seconds (GRPC_CLIENT_CHANNEL_BACKUP_POLL_-
// INTERVAL_MS): the connection that is being made anew would not be ready when
// the pause is over.
void SleepAndDriveConnections(absl::Duration pause) {
  const gpr_timespec end = gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_nanos(absl::ToInt64Nanoseconds(pause), GPR_TIMESPAN));
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool is_ok = false;
  queue.AsyncNext(&tag, &is_ok, end);
  queue.Shutdown();
  while (queue.Next(&tag, &is_ok)) {
  }
}

}  // namespace

RetryEnvironment SystemRetryEnvironment() {
  return {
      .now = SteadyNow,
      .sleep = SleepAndDriveConnections,
      .random = RandomFraction,
  };
}

}  // namespace tensorkv
