#include "base/scoped_blocking_call.h"

#include <chrono>
#include <thread>
#include <utility>

namespace tensorkv {
namespace {

// Passes before the system is asked again for a thread that it had not to give.
constexpr std::chrono::milliseconds kPause(10);

// Null within a scope.
thread_local BlockingObserver* observer_of_this_thread = nullptr;

}  // namespace

ScopedBlockingCall::ScopedBlockingCall(IfLast if_last)
    : observer_(std::exchange(observer_of_this_thread, nullptr)) {
  if (observer_ == nullptr) return;
  while (!observer_->BlockingBegins() && if_last == IfLast::kWait) {
    std::this_thread::sleep_for(kPause);
    observer_->BlockingEnds();
  }
}

ScopedBlockingCall::~ScopedBlockingCall() {
  if (observer_ == nullptr) return;
  observer_->BlockingEnds();
  observer_of_this_thread = observer_;
}

void ScopedBlockingCall::ObserveThisThread(BlockingObserver* observer) {
  observer_of_this_thread = observer;
}

}  // namespace tensorkv
