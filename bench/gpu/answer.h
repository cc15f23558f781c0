// What comes later, on some other thread.

#ifndef TENSORKV_BENCH_GPU_ANSWER_H_
#define TENSORKV_BENCH_GPU_ANSWER_H_

#include <memory>
#include <utility>

#include "base/mutex.h"

namespace tensorkv::bench::gpu {

// A value that is set once, on any thread, and waited for on another. Copies
// are the same answer: whoever sets it needs one of its own, as it may go on
// for a moment when the other has what it wanted.
template <typename T>
class Answer {
 public:
  void Set(T value) {
    state_->value = std::move(value);
    state_->arrived.Notify();
  }
  T Wait() {
    state_->arrived.WaitForNotification();
    return std::move(state_->value);
  }

 private:
  struct State {
    T value;
    Notification arrived;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_ANSWER_H_
