#include "client/call_threads.h"

#include <deque>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace tensorkv {

struct CallThreads::State {
  explicit State(int max_threads) : max_threads(max_threads) {}

  const int max_threads;
  Mutex mutex;
  CondVar changed;
  bool is_stopping ABSL_GUARDED_BY(mutex) = false;
  std::deque<Task> tasks ABSL_GUARDED_BY(mutex);
  int num_threads ABSL_GUARDED_BY(mutex) = 0;
  int num_idle ABSL_GUARDED_BY(mutex) = 0;
};

CallThreads::CallThreads(int max_threads)
    : state_(std::make_shared<State>(max_threads)) {}

CallThreads::~CallThreads() {
  MutexLock lock(&state_->mutex);
  state_->is_stopping = true;
  state_->changed.SignalAll();
}

void CallThreads::Run(Task task) {
  {
    MutexLock lock(&state_->mutex);
    const bool all_are_busy =
        state_->tasks.size() >= static_cast<size_t>(state_->num_idle);
    if (all_are_busy && state_->num_threads < state_->max_threads) {
      try {
        std::thread([state = state_] { Serve(state); }).detach();
        ++state_->num_threads;
      } catch (const std::system_error&) {
        // The system has no more threads; those that are there do the work.
      }
    }
    if (state_->num_threads > 0) {
      state_->tasks.push_back(std::move(task));
      state_->changed.Signal();
      return;
    }
  }
  std::move(task)();
}

void CallThreads::Serve(const std::shared_ptr<State>& state) {
  state->mutex.lock();
  for (;;) {
    ++state->num_idle;
    while (state->tasks.empty() && !state->is_stopping) {
      state->changed.Wait(&state->mutex);
    }
    --state->num_idle;
    if (state->tasks.empty()) break;
    Task task = std::move(state->tasks.front());
    state->tasks.pop_front();
    state->mutex.unlock();
    std::move(task)();
    task = nullptr;  // What it holds goes without the lock.
    state->mutex.lock();
  }
  --state->num_threads;
  state->mutex.unlock();
}

}  // namespace tensorkv
