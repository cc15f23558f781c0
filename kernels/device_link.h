// How a device exchanges memory with devices of other processes.

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

// Called again and again while a call waits: returns OK to wait on, or the
// error with which the call is to end.
using MayWait = absl::FunctionRef<absl::Status()>;

// Devices of several processes that have met, each known by its rank. Whatever
// another process does, calls end when MayWait says so. A call that fails
// breaks the group for good: its transfers are aborted at once, and none is
// left on the device. Used by one thread at a time.
class DeviceGroup {
 public:
  // Aborts transfers under way.
  virtual ~DeviceGroup() = default;

  // Memory of the device, by rank of the other process. Each process receives
  // the spans that another sends it in the order in which that lists them, and
  // of the same sizes.
  struct Transfers {
    std::vector<std::vector<absl::Span<const char>>> sends;
    std::vector<std::vector<absl::Span<char>>> receives;
  };
  // Makes all transfers at once, and blocks until they are over. The processes
  // with which it sends or receives must call it too.
  // Errors: Unavailable: the group is broken, by an earlier call or by another
  // process · those of `may_wait` · Internal.
  virtual absl::Status Exchange(const Transfers& transfers,
                                MayWait may_wait) = 0;
};

// Brings a device together with those of other processes. Thread-safe.
class DeviceLink {
 public:
  virtual ~DeviceLink() = default;

  // Returns the version of the library: devices meet only if all have the same
  // one. Not 0.
  virtual uint32_t version() const = 0;

  // Returns the id of this GPU among those of all machines, if at most one
  // process on a GPU can meet others; empty if several can, or the id is not
  // known.
  virtual std::string gpu() const { return ""; }

  // Returns an id for Join: one process makes it, and all must be given it.
  // Errors: Unavailable · Internal.
  virtual absl::StatusOr<std::string> NewGroupId() = 0;

  // Blocks until all `size` processes have called Join with this id, each with
  // a `rank` of its own below `size`. An id serves once.
  // Errors: InvalidArgument (no id) · Unavailable · those of `may_wait` ·
  // Internal.
  virtual absl::StatusOr<std::unique_ptr<DeviceGroup>> Join(
      const std::string& id, uint32_t rank, uint32_t size,
      MayWait may_wait) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_DEVICE_LINK_H_
