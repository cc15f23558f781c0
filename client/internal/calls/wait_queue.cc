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

std::atomic<bool> is_bound = false;
std::atomic<bool> is_forked = false;
[[maybe_unused]] const int is_told =
    pthread_atfork(nullptr, nullptr, [] { is_forked = is_bound.load(); });

// Returns the wait of a tag that has come. The end of a wait sees what was
// written before its beginning; ThreadSanitizer does not see that gRPC orders
// them, so that TagOf and this function tell it.
QueuedWait* WaitOf(void* tag) {
#ifdef _GLIBCXX_TSAN
  __tsan_acquire(tag);
#endif
  return static_cast<QueuedWait*>(tag);
}

// The threads of the queue. Thread-safe; never destroyed.
class WaitThreads final : public BlockingObserver {
 public:
  grpc::CompletionQueue* queue() { return &queue_; }

  // Starts those that are wanted and not there. Returns whether any does not
  // block.
  bool Start() {
    MutexLock lock(&mutex_);
    while (num_threads_ < num_wanted_ && StartOne()) {
    }
    return HasOneFree();
  }

  // In a process that was forked nobody waits for the queue, and the lock may
  // be that of a thread which is not there.
  bool BlockingBegins() override {
    if (is_forked) return true;
    MutexLock lock(&mutex_);
    ++num_blocked_;
    return HasOneFree();
  }
  void BlockingEnds() override {
    if (is_forked) return;
    MutexLock lock(&mutex_);
    --num_blocked_;
  }

 private:
  bool HasOneFree() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return num_threads_ > num_blocked_ || StartOne();
  }
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
      WaitOf(tag)->End();
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
  Mutex mutex_;
  // Is written with the lock.
  std::atomic<int> num_threads_ = 0;
  int num_blocked_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

absl::StatusOr<grpc::CompletionQueue*> WaitQueue() {
  RETURN_IF_ERROR(CheckNotForked());
  BindToThisProcess();
  static WaitThreads& threads = *new WaitThreads;
  if (threads.Start()) return threads.queue();
  return WithReason(
      absl::ResourceExhaustedError("the system has no thread for the call"),
      Reason::kLimitReached, {{"limit", "threads"}});
}

void* TagOf(QueuedWait* wait) {
#ifdef _GLIBCXX_TSAN
  __tsan_release(wait);
#endif
  return wait;
}

void BindToThisProcess() { is_bound = true; }

absl::Status CheckNotForked() {
  if (!is_forked) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this process was forked after its parent had made a client, and has "
      "none of the threads that clients need: fork before the first client is "
      "made");
}

}  // namespace tensorkv
