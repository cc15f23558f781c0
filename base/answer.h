// A value that another thread provides later.

#ifndef TENSORKV_BASE_ANSWER_H_
#define TENSORKV_BASE_ANSWER_H_

#include <memory>
#include <utility>

#include "base/mutex.h"

namespace tensorkv {

// A promise and its future in one: a value that is set once, on any thread, and
// waited for once, on another. Thread-safe. Copies share the value. The thread
// that sets it needs a copy of its own: Set may still run when Wait has
// returned and the waiter has destroyed its copy.
template <typename T>
class Answer {
 public:
  // REQUIRES: called once.
  void Set(T value) const {
    state_->value = std::move(value);
    state_->arrived.Notify();
  }

  // Returns whether Wait would return at once.
  bool HasArrived() const { return state_->arrived.HasBeenNotified(); }

  // Blocks until the value is set, and moves it out. REQUIRES: called once.
  T Wait() const {
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

}  // namespace tensorkv

#endif  // TENSORKV_BASE_ANSWER_H_
