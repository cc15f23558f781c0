// How a device reaches those of other processes.

#ifndef TENSORKV_KERNELS_DEVICE_LINK_H_
#define TENSORKV_KERNELS_DEVICE_LINK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tensorkv {

// Is asked again and again by who waits: OK to go on, or what to end with.
using MayWait = absl::FunctionRef<absl::Status()>;

// Devices of several processes that have met, which go by their ranks. Whatever
// another process does, calls end when MayWait says so. What fails, or is ended
// so, breaks the group for good, and is given up at once, so that nothing of it
// is left on the device. Used by one thread at a time.
class DeviceGroup {
 public:
  // Gives up what is under way.
  virtual ~DeviceGroup() = default;

  // Memory of the device, by rank of the other process. What one sends another
  // the other receives, piece by piece, in the same order.
  struct Transfers {
    std::vector<std::vector<absl::Span<const char>>> sends;
    std::vector<std::vector<absl::Span<char>>> receives;
  };
  // Makes all of them at once, and waits.
  // Errors: Unavailable: broken, before or by another process · those of
  // `may_wait` · Internal.
  virtual absl::Status Exchange(const Transfers& transfers,
                                MayWait may_wait) = 0;
};

// Thread-safe.
class DeviceLink {
 public:
  virtual ~DeviceLink() = default;

  // Devices meet only where all have the same, which is not 0.
  virtual uint32_t version() const = 0;

  // Which GPU of all machines it is, where only one process on it can meet
  // others; empty: it does not matter, or is not known.
  virtual std::string gpu() const { return ""; }

  // For one of the processes to make, and for all to be given.
  // Errors: Unavailable · Internal.
  virtual absl::StatusOr<std::string> NewGroupId() = 0;

  // Waits until all `size` processes of that id are there, and each id brings
  // them together once.
  // Errors: InvalidArgument (no id) · Unavailable · those of `may_wait` ·
  // Internal.
  virtual absl::StatusOr<std::unique_ptr<DeviceGroup>> Join(
      const std::string& id, uint32_t rank, uint32_t size,
      MayWait may_wait) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_DEVICE_LINK_H_
