#include "kernels/device_health.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/reason.h"

namespace tensorkv {

absl::Status DeviceHealth::status() const {
  if (!has_failed_) return absl::OkStatus();
  MutexLock lock(&mutex_);
  return status_;
}

absl::Status DeviceHealth::MarkFailed(const absl::Status& cause) {
  {
    MutexLock lock(&mutex_);
    if (!status_.ok()) return status_;
    status_ = WithReason(absl::UnavailableError(absl::StrCat(
                             device_, " has failed: ", cause.message())),
                         Reason::kDeviceFailed, {{"device", device_}});
    has_failed_ = true;
  }
  MutexLock lock(&listener_mutex_);
  CallListener();
  return status();
}

void DeviceHealth::SetListener(Listener listener) {
  MutexLock lock(&listener_mutex_);
  listener_ = std::move(listener);
  CallListener();
}

void DeviceHealth::CallListener() {
  if (!has_failed_) return;
  const Listener listener = std::exchange(listener_, nullptr);
  if (listener) listener(status());
}

}  // namespace tensorkv
