// The devices that a store keeps its tensors on.

#ifndef TENSORKV_SERVICE_STORE_DEVICE_SET_H_
#define TENSORKV_SERVICE_STORE_DEVICE_SET_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/backend.h"

namespace tensorkv {

// A device by its place in the set.
using DeviceIndex = uint8_t;

// By device.
using CopiesByDevice = std::vector<std::vector<MemoryCopy>>;

// Backends, and work on several of them at once. Thread-safe.
class DeviceSet {
 public:
  static constexpr size_t kMaxDevices = 64;

  // REQUIRES: at least one, at most kMaxDevices; the host only by itself. They
  // outlive the set.
  explicit DeviceSet(std::vector<Backend*> devices)
      : devices_(std::move(devices)) {}

  size_t size() const { return devices_.size(); }
  Backend& operator[](DeviceIndex index) const { return *devices_[index]; }
  bool is_host() const { return devices_[0]->is_host(); }

  // As Backend::CopyToDevice and CopyToHost, with the first error that any
  // device has; all copies are over then.
  absl::Status CopyToDevices(const CopiesByDevice& copies) const;
  void CopyToHost(CopiesByDevice copies, CopiedCallback done) const;

  // Calls `work` for each device of which `used` has the bit set, at the same
  // time: the first on this thread, each other one on a thread of its own.
  // Returns when all have.
  void ForEach(uint64_t used,
               absl::FunctionRef<void(DeviceIndex device)> work) const;

 private:
  const std::vector<Backend*> devices_;
};

// Chooses the devices of new keys: always that with the most free memory, less
// what was placed there before. Not thread-safe.
class Placement {
 public:
  explicit Placement(const DeviceSet& devices);

  DeviceIndex Place(uint64_t size_bytes);

 private:
  std::vector<uint64_t> free_bytes_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_DEVICE_SET_H_
