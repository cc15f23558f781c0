// Tells whether a device still comes to the end of its work.

#ifndef TENSORKV_SERVICE_SERVER_DEVICE_PROBE_H_
#define TENSORKV_SERVICE_SERVER_DEVICE_PROBE_H_

#include <memory>

#include "absl/functional/any_invocable.h"
#include "kernels/backend.h"

namespace tensorkv {

// Sends a probe behind the work that a backend has to do: if the work never
// ends, the probe does not come back. Thread-safe.
class DeviceProbe {
 public:
  // `backend` outlives this object.
  explicit DeviceProbe(Backend* backend);
  // Stops, without waiting for the device, which may never end.
  ~DeviceProbe();

  // Calls `done`, on any thread, maybe before this returns, when the device has
  // done all that it had to do by now, or has failed; not after Stop. `done`
  // must not call this object. REQUIRES: no other probe is under way.
  void Start(absl::AnyInvocable<void() &&> done);
  // Drops the `done` of the probe that is under way, or waits for it if it
  // runs.
  void Stop();

 private:
  struct Listener;

  Backend& backend_;
  const std::shared_ptr<Listener> listener_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_DEVICE_PROBE_H_
