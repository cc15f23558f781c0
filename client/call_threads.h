// Runs what blocks of calls that nobody waits for.

#ifndef TENSORKV_CLIENT_CALL_THREADS_H_
#define TENSORKV_CLIENT_CALL_THREADS_H_

#include <memory>

#include "absl/functional/any_invocable.h"

namespace tensorkv {

// Threads, made when they are needed, where calls that nobody waits for do what
// blocks. Most calls need none: gRPC tells when they have ended. Calls need one
// that are streams, go to a store in this process, or encode what they push.
// Thread-safe.
class CallThreads {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  // REQUIRES: max_threads > 0.
  explicit CallThreads(int max_threads);
  // Waits for nothing: tasks that were given to Run are run all the same.
  ~CallThreads();
  CallThreads(const CallThreads&) = delete;
  CallThreads& operator=(const CallThreads&) = delete;

  // Has a thread run the task, and returns. Tasks begin in their order, at most
  // max_threads at a time. Where the system has not one thread to give, the
  // calling thread runs the task before this returns.
  void Run(Task task);

 private:
  struct State;

  static void Serve(const std::shared_ptr<State>& state);

  // Shared with the threads, which outlive this object.
  const std::shared_ptr<State> state_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CALL_THREADS_H_
