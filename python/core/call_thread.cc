#include "python/core/call_thread.h"

#include <pybind11/pybind11.h>

#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace tensorkv::python {
namespace {

// How long a signal may wait for its handler.
constexpr absl::Duration kSlice = absl::Milliseconds(50);

}  // namespace

struct CallThread::State {
  Mutex mutex;
  CondVar changed;
  absl::AnyInvocable<void() &&> call ABSL_GUARDED_BY(mutex);
  bool is_running ABSL_GUARDED_BY(mutex) = false;
  bool is_stopping ABSL_GUARDED_BY(mutex) = false;

  // Whether the call has ended within a slice.
  bool Wait() {
    MutexLock lock(&mutex);
    while (is_running) {
      if (changed.WaitWithTimeout(&mutex, kSlice)) break;
    }
    return !is_running;
  }
};

CallThread::~CallThread() { Stop(); }

void CallThread::Stop() {
  if (state_ == nullptr) return;
  MutexLock lock(&state_->mutex);
  state_->is_stopping = true;
  state_->changed.SignalAll();
}

bool CallThread::Run(absl::AnyInvocable<void() &&> call) {
  if (state_ == nullptr) {
    state_ = std::make_shared<State>();
    std::thread([state = state_] { Serve(state); }).detach();
  }
  {
    MutexLock lock(&state_->mutex);
    state_->call = std::move(call);
    state_->is_running = true;
    state_->changed.SignalAll();
  }
  for (;;) {
    {
      const pybind11::gil_scoped_release release;
      if (state_->Wait()) return true;
    }
    if (PyErr_CheckSignals() != 0) {
      Stop();
      state_ = nullptr;
      return false;
    }
  }
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
