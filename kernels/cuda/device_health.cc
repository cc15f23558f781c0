#include "kernels/cuda/device_health.h"

#include "absl/strings/str_cat.h"

namespace tensorkv {

absl::Status DeviceHealth::status() const {
  if (!has_failed_) return absl::OkStatus();
  MutexLock lock(&mutex_);
  return status_;
}

absl::Status DeviceHealth::Fail(const absl::Status& cause) {
  MutexLock lock(&mutex_);
  if (status_.ok()) {
    status_ = absl::UnavailableError(
        absl::StrCat(device_, " has failed: ", cause.message()));
    has_failed_ = true;
  }
  return status_;
}

}  // namespace tensorkv
