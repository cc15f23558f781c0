// Threads for calls that nobody waits for.

#ifndef TENSORKV_CLIENT_CALL_THREADS_H_
#define TENSORKV_CLIENT_CALL_THREADS_H_

#include <memory>

#include "absl/functional/any_invocable.h"

namespace tensorkv {

// Threads where such calls do what blocks, made when they are needed. Most
// calls need none: gRPC tells when they have ended. Those do that are streams,
// go to a cluster or to a store in this process, or encode what they push.
// Thread-safe.
class CallThreads {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  // REQUIRES: max_threads > 0.
  explicit CallThreads(int max_threads);
  // Waits for nothing: what was given to it runs all the same.
  ~CallThreads();
  CallThreads(const CallThreads&) = delete;
  CallThreads& operator=(const CallThreads&) = delete;

  // Runs tasks in their order, so many at a time as there may be threads. Where
  // the system has not one thread to give, the caller runs the task.
  void Run(Task task);

 private:
  struct State;

  static void Serve(const std::shared_ptr<State>& state);

  // Shared with the threads, which outlive this object.
  const std::shared_ptr<State> state_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CALL_THREADS_H_
