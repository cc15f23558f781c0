// Makes calls that Python's signals interrupt.

#ifndef TENSORKV_PYTHON_CORE_CALL_THREAD_H_
#define TENSORKV_PYTHON_CORE_CALL_THREAD_H_

#include <memory>

#include "absl/functional/any_invocable.h"

namespace tensorkv::python {

// Runs the calls of Python's main thread on a thread of its own, while the main
// thread looks after signals. One thread at a time uses it. Its signal handlers
// may make calls while it waits for one: each such call has a thread to itself.
class CallThread {
 public:
  CallThread() = default;
  // Does not wait for a call that Run has left to itself.
  ~CallThread();
  CallThread(const CallThread&) = delete;
  CallThread& operator=(const CallThread&) = delete;

  // Runs `call` on the other thread and waits for it, without the GIL. If a
  // signal handler raises an exception meanwhile, returns false with the
  // exception set; the call goes on by itself.
  // REQUIRES: the GIL. Throws std::system_error where no thread can be made.
  [[nodiscard]] bool Run(absl::AnyInvocable<void() &&> call);

  // Forgets the thread, which does not exist in a process that was forked.
  void Abandon();

 private:
  struct State;

  static void Serve(const std::shared_ptr<State>& state);

  // Shared with a thread that waits for a call; null while there is none.
  std::shared_ptr<State> idle_;
};

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_CALL_THREAD_H_
