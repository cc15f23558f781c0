#include "python/core/call_thread.h"

#include <pybind11/pybind11.h>

#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "python/core/gil_release.h"

namespace tensorkv::python {
namespace {

// A signal waits so long for its handler, at most.
constexpr absl::Duration kSignalPeriod = absl::Milliseconds(50);

}  // namespace

struct CallThread::State {
  Mutex mutex;
  CondVar changed;
  absl::AnyInvocable<void() &&> call ABSL_GUARDED_BY(mutex);
  bool is_running ABSL_GUARDED_BY(mutex) = false;
  bool is_stopping ABSL_GUARDED_BY(mutex) = false;

  // Waits until the call has ended, for kSignalPeriod at most, and returns
  // whether it has.
  bool Wait() {
    MutexLock lock(&mutex);
    while (is_running) {
      if (changed.WaitWithTimeout(&mutex, kSignalPeriod)) break;
    }
    return !is_running;
  }

  // Ends the thread after the call, if there is one.
  void Stop() {
    MutexLock lock(&mutex);
    is_stopping = true;
    changed.SignalAll();
  }
};

CallThread::~CallThread() {
  if (idle_ != nullptr) idle_->Stop();
}

void CallThread::Abandon() {
  // It is leaked on purpose: the mutex may have been held at the fork, and
  // nobody here will ever unlock it.
  if (idle_ != nullptr) new std::shared_ptr<State>(std::move(idle_));
}

bool CallThread::Run(absl::AnyInvocable<void() &&> call) {
  // A call that a signal handler makes below finds no idle thread.
  std::shared_ptr<State> state = std::exchange(idle_, nullptr);
  if (state == nullptr) {
    state = std::make_shared<State>();
    std::thread([state] { Serve(state); }).detach();
  }
  {
    MutexLock lock(&state->mutex);
    state->call = std::move(call);
    state->is_running = true;
    state->changed.SignalAll();
  }
  for (;;) {
    {
      const GilRelease release;
      if (state->Wait()) break;
    }
    if (PyErr_CheckSignals() != 0) {
      state->Stop();
      return false;
    }
  }
  if (idle_ == nullptr) {
    idle_ = std::move(state);
  } else {
    state->Stop();
  }
  return true;
}

void CallThread::Serve(const std::shared_ptr<State>& state) {
  for (;;) {
    absl::AnyInvocable<void() &&> call;
    {
      MutexLock lock(&state->mutex);
      while (!state->is_running && !state->is_stopping) {
        state->changed.Wait(&state->mutex);
      }
      if (!state->is_running) return;
      call = std::move(state->call);
    }
    std::move(call)();
    // What the call holds goes before its caller goes on.
    call = nullptr;
    MutexLock lock(&state->mutex);
    state->is_running = false;
    state->changed.SignalAll();
  }
}

}  // namespace tensorkv::python
