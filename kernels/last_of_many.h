// Calls back when the last of several pieces of work has ended.

#ifndef TENSORKV_KERNELS_LAST_OF_MANY_H_
#define TENSORKV_KERNELS_LAST_OF_MANY_H_

#include <cstddef>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/mutex.h"

namespace tensorkv {

// Counts pieces of work that end, and calls back with the last: with the first
// error that was reported, or OK. Thread-safe.
class LastOfMany {
 public:
  using Callback = absl::AnyInvocable<void(absl::Status) &&>;

  // Calls `done` when End has been called `num_left` times, and once more for
  // each Add. REQUIRES: num_left > 0.
  LastOfMany(size_t num_left, Callback done)
      : num_left_(num_left), done_(std::move(done)) {}

  // Adds a piece. REQUIRES: another piece has not ended.
  void Add() {
    MutexLock lock(&mutex_);
    ++num_left_;
  }

  // Reports that one piece has ended with `status`. The last call runs the
  // callback on its thread.
  void End(const absl::Status& status) {
    {
      MutexLock lock(&mutex_);
      status_.Update(status);
      if (--num_left_ > 0) return;
    }
    // Nobody else is left. What the callback owns goes when it returns.
    Callback done = std::move(done_);
    std::move(done)(std::move(status_));
  }

 private:
  Mutex mutex_;
  size_t num_left_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_;
  Callback done_;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_LAST_OF_MANY_H_
