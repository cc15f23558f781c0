// Work that a device does while no thread waits for it.

#ifndef TENSORKV_SERVICE_STORE_DEVICE_WORK_H_
#define TENSORKV_SERVICE_STORE_DEVICE_WORK_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/ref_counted.h"
#include "kernels/backend.h"
#include "tensor/buffer.h"

namespace tensorkv {

// Copies to the device that have not been started.
struct Uploads {
  std::vector<MemoryCopy> copies;
  // The memory that they are made from, and that which nobody else has of what
  // they go to, until all are over.
  std::vector<RefPtr<Buffer>> kept;
};

// Starts the copies and returns; plans that are submitted later see them done.
// After an error, some of the memory that they go to may be written.
inline absl::Status Start(Backend& device, Uploads uploads) {
  return device.Submit({.uploads = std::move(uploads.copies)},
                       [kept = std::move(uploads.kept)](
                           const absl::Status&) mutable { kept.clear(); });
}

// Counts the tasks and device work under way, so that the store can wait for
// the end of all. Thread-safe.
class WorkUnderWay {
 public:
  // Counts one more as under way, until End.
  void Begin() {
    MutexLock lock(&mutex_);
    ++num_;
  }
  void End() {
    MutexLock lock(&mutex_);
    if (--num_ == 0) changed_.SignalAll();
  }
  // Blocks until none is under way.
  void WaitForAll() {
    MutexLock lock(&mutex_);
    while (num_ > 0) changed_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  size_t num_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_DEVICE_WORK_H_
