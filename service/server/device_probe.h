// Sees whether a device does what it is told.

#ifndef TENSORKV_SERVICE_SERVER_DEVICE_PROBE_H_
#define TENSORKV_SERVICE_SERVER_DEVICE_PROBE_H_

#include <memory>

#include "absl/functional/any_invocable.h"
#include "kernels/backend.h"

namespace tensorkv {

// Has work go through a backend. Thread-safe.
class DeviceProbe {
 public:
  // `backend` outlives this object.
  explicit DeviceProbe(Backend* backend);
  // Nobody is told any more: what stands still may never come back.
  ~DeviceProbe();

  // Has `done` called when the device has done what it had to do, unless
  // stopped. REQUIRES: no other probe is under way.
  void Start(absl::AnyInvocable<void() &&> done);
  void Stop();

 private:
  struct Listener;

  Backend& backend_;
  const std::shared_ptr<Listener> listener_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_DEVICE_PROBE_H_
