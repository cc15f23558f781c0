// The end of a piece of work, as its caller waits for it.

#ifndef TENSORKV_KERNELS_CUDA_COMPLETION_H_
#define TENSORKV_KERNELS_CUDA_COMPLETION_H_

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"

namespace tensorkv {

// A status that comes once. Thread-safe. Shared by who waits and who ends the
// work, as either may be the last to touch it.
class Completion {
 public:
  // REQUIRES: called once.
  void Set(absl::Status status) {
    MutexLock lock(&mutex_);
    status_ = std::move(status);
    is_set_ = true;
    set_.SignalAll();
  }

  absl::Status Wait() {
    MutexLock lock(&mutex_);
    while (!is_set_) set_.Wait(&mutex_);
    return status_;
  }

 private:
  Mutex mutex_;
  CondVar set_;
  bool is_set_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_COMPLETION_H_
