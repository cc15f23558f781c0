#include "client/internal/calls/wait_queue.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "base/scoped_blocking_call.h"
#include "base/status_macros.h"
#include "contract/reason.h"

#ifdef _GLIBCXX_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace tensorkv {
namespace {

// What a wait's beginning has written is there for its end: the order that gRPC
// gives is invisible to ThreadSanitizer.
void TellOrder([[maybe_unused]] void* tag, [[maybe_unused]] bool is_end) {
#ifdef _GLIBCXX_TSAN
  is_end ? __tsan_acquire(tag) : __tsan_release(tag);
#endif
}

// The threads of the queue. Thread-safe; never destroyed.
class WaitThreads final : public BlockingObserver {
 public:
  grpc::CompletionQueue* queue() { return &queue_; }

  // Starts the threads where there are none. Returns whether there are any.
  bool Start() {
    if (has_started_) return true;
    MutexLock lock(&mutex_);
    while (num_threads_ < num_wanted_ && StartOne()) {
    }
    has_started_ = num_threads_ > 0;
    return has_started_;
  }

  void BlockingBegins() override {
    MutexLock lock(&mutex_);
    if (++num_blocked_ == num_threads_) StartOne();
  }
  void BlockingEnds() override {
    MutexLock lock(&mutex_);
    --num_blocked_;
  }

 private:
  // Returns false where the system has no more threads.
  bool StartOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    try {
      std::thread([this] { Serve(); }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    ++num_threads_;
    return true;
  }
  void Serve() {
    ScopedBlockingCall::ObserveThisThread(this);
    void* tag = nullptr;
    bool is_ok = false;
    while (queue_.Next(&tag, &is_ok)) {
      TellOrder(tag, /*is_end=*/true);
      static_cast<QueuedWait*>(tag)->End();
      if (IsOneTooMany()) return;
    }
  }
  // Returns whether the calling thread, which does not block, is to end.
  bool IsOneTooMany() {
    if (num_threads_ <= num_wanted_) return false;
    MutexLock lock(&mutex_);
    if (num_threads_ - num_blocked_ <= num_wanted_) return false;
    --num_threads_;
    return true;
  }

  const int num_wanted_ =
      std::clamp<int>(std::thread::hardware_concurrency() / 2, 2, 16);
  grpc::CompletionQueue queue_;
  std::atomic<bool> has_started_ = false;
  Mutex mutex_;
  // Is written with the lock.
  std::atomic<int> num_threads_ = 0;
  int num_blocked_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

absl::StatusOr<grpc::CompletionQueue*> WaitQueue() {
  RETURN_IF_ERROR(CheckNotForked());
  static WaitThreads& threads = *new WaitThreads;
  if (threads.Start()) return threads.queue();
  return WithReason(
      absl::ResourceExhaustedError("the system has no thread for the call"),
      Reason::kLimitReached, {{"limit", "threads"}});
}

void* TagOf(QueuedWait* wait) {
  TellOrder(wait, /*is_end=*/false);
  return wait;
}

absl::Status CheckNotForked() {
  static std::atomic<bool> is_forked = false;
  [[maybe_unused]] static const int is_told =
      pthread_atfork(nullptr, nullptr, [] { is_forked = true; });
  if (!is_forked) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this process was forked after its parent had made a client, and has "
      "none of the threads that clients need: fork before the first client is "
      "made");
}

}  // namespace tensorkv
