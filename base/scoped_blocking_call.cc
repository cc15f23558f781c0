#include "base/scoped_blocking_call.h"

#include <utility>

namespace tensorkv {
namespace {

// Null within a scope.
thread_local BlockingObserver* observer_of_this_thread = nullptr;

}  // namespace

ScopedBlockingCall::ScopedBlockingCall()
    : observer_(std::exchange(observer_of_this_thread, nullptr)) {
  if (observer_ != nullptr) observer_->BlockingBegins();
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
