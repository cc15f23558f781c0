// The end of work that is in several pieces.

#ifndef TENSORKV_KERNELS_LAST_OF_MANY_H_
#define TENSORKV_KERNELS_LAST_OF_MANY_H_

#include <cstddef>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/mutex.h"

namespace tensorkv {

// Calls back when so many pieces of work have ended, with an error that one has
// ended with, if any has. Thread-safe.
class LastOfMany {
 public:
  using Callback = absl::AnyInvocable<void(absl::Status) &&>;

  // REQUIRES: num_left > 0.
  LastOfMany(size_t num_left, Callback done)
      : num_left_(num_left), done_(std::move(done)) {}

  // One more piece, before the last has ended.
  void Add() {
    MutexLock lock(&mutex_);
    ++num_left_;
  }

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
