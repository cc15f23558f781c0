// Goes on with what waits for gRPC without a thread.

#ifndef TENSORKV_CLIENT_INTERNAL_CALLS_WAIT_QUEUE_H_
#define TENSORKV_CLIENT_INTERNAL_CALLS_WAIT_QUEUE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/completion_queue.h"

namespace tensorkv {

// A wait for gRPC: an RPC, a pause.
class QueuedWait {
 public:
  // Goes on with whoever has waited. Is called once, on a thread of the queue,
  // and may destroy the wait.
  virtual void End() = 0;

 protected:
  ~QueuedWait() = default;
};

// Returns the queue where the waits of this process end. Threads take them from
// there until the process ends, for a wait may be the last that keeps its
// connection. Those of gRPC that call back end with the last channel that uses
// them, which waits for them; and once nothing has come for a second they sleep
// for 100 ms. A thread that blocks (ScopedBlockingCall) is replaced if no other
// is left. Binds to this process. Errors: those of CheckNotForked ·
// ResourceExhausted (LIMIT_REACHED): all threads block, if there are any, and
// the system has none to give.
absl::StatusOr<grpc::CompletionQueue*> WaitQueue();

// Returns the tag of a wait that is about to begin at the queue.
void* TagOf(QueuedWait* wait);

// Has CheckNotForked fail in processes that are forked from now on: they have
// the connections of this one, but none of its threads.
void BindToThisProcess();

// Errors: FailedPrecondition in a process that was forked after
// BindToThisProcess.
absl::Status CheckNotForked();

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_CALLS_WAIT_QUEUE_H_
