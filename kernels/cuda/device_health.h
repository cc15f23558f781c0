// Whether a device still works.

#ifndef TENSORKV_KERNELS_CUDA_DEVICE_HEALTH_H_
#define TENSORKV_KERNELS_CUDA_DEVICE_HEALTH_H_

#include <atomic>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"

namespace tensorkv {

// Works until it fails, then for ever not. Thread-safe.
class DeviceHealth {
 public:
  // `device` is the name in messages.
  explicit DeviceHealth(absl::string_view device) : device_(device) {}

  // OK, or Unavailable with the first cause.
  absl::Status status() const;

  // The device has failed. The first cause stays. Returns `status`.
  absl::Status Fail(const absl::Status& cause);

 private:
  const std::string device_;
  std::atomic<bool> has_failed_ = false;
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_DEVICE_HEALTH_H_
