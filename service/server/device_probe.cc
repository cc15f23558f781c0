#include "service/server/device_probe.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace tensorkv {

// Outlives the probe while the device has not come to the end of its work.
struct DeviceProbe::Listener {
  Mutex mutex;
  absl::AnyInvocable<void() &&> done ABSL_GUARDED_BY(mutex);
};

DeviceProbe::DeviceProbe(Backend* backend)
    : backend_(*backend), listener_(std::make_shared<Listener>()) {}

DeviceProbe::~DeviceProbe() { Stop(); }

void DeviceProbe::Start(absl::AnyInvocable<void() &&> done) {
  {
    MutexLock lock(&listener_->mutex);
    listener_->done = std::move(done);
  }
  backend_.Probe([listener = listener_] {
    MutexLock lock(&listener->mutex);
    if (listener->done) std::exchange(listener->done, nullptr)();
  });
}

void DeviceProbe::Stop() {
  MutexLock lock(&listener_->mutex);
  listener_->done = nullptr;
}

}  // namespace tensorkv
