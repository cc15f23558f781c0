// What comes later, from some other thread.

#ifndef TENSORKV_BASE_ANSWER_H_
#define TENSORKV_BASE_ANSWER_H_

#include <memory>
#include <utility>

#include "base/mutex.h"

namespace tensorkv {

// A value that is set once, on any thread, and taken once, on another.
// Thread-safe. Copies are the same answer: whoever sets it needs one of its
// own, as it may go on for a moment when the other has what it wanted.
template <typename T>
class Answer {
 public:
  // REQUIRES: called once.
  void Set(T value) const {
    state_->value = std::move(value);
    state_->arrived.Notify();
  }

  bool HasArrived() const { return state_->arrived.HasBeenNotified(); }

  // Waits for the value and takes it. REQUIRES: called once.
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
