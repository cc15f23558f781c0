// Whether a device still works.

#ifndef TENSORKV_KERNELS_DEVICE_HEALTH_H_
#define TENSORKV_KERNELS_DEVICE_HEALTH_H_

#include <atomic>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"

namespace tensorkv {

// The state of a device: it works until it fails, and then never again.
// Thread-safe.
class DeviceHealth {
 public:
  using Listener = std::function<void(const absl::Status&)>;

  // `device` is the name in messages.
  explicit DeviceHealth(absl::string_view device) : device_(device) {}

  // Returns OK, or Unavailable with the first cause.
  absl::Status status() const;

  // Records that the device has failed, and calls the listener. A device that
  // has failed already keeps its first cause. Returns status().
  absl::Status MarkFailed(const absl::Status& cause);

  // Has `listener` called once with status() when the device has failed: before
  // this returns if it has already, else by the thread that calls MarkFailed,
  // which may hold any lock: the listener must not block, nor use this object.
  // Replaces the listener before, which does not run any more when this
  // returns. May be null.
  void SetListener(Listener listener);

 private:
  // Calls the listener, if there is one and the device has failed.
  void CallListener() ABSL_EXCLUSIVE_LOCKS_REQUIRED(listener_mutex_);

  const std::string device_;
  std::atomic<bool> has_failed_ = false;
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);

  Mutex listener_mutex_;
  Listener listener_ ABSL_GUARDED_BY(listener_mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_DEVICE_HEALTH_H_
