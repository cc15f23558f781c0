// Memory of a device, counted before it is allocated.

#ifndef TENSORKV_KERNELS_CUDA_DEVICE_POOL_H_
#define TENSORKV_KERNELS_CUDA_DEVICE_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/stream_lane.h"

namespace tensorkv {

class DevicePool;

// Gives a piece of device memory back to its pool.
struct FreeOnDevice {
  void operator()(char* data) const;
  std::shared_ptr<DevicePool> pool;
  size_t size_bytes = 0;
};

// A piece of device memory, freed at the end, when the device must be done with
// it. Move-only; may be empty.
class DeviceMemory {
 public:
  DeviceMemory() = default;

  char* data() const { return data_.get(); }
  size_t size_bytes() const {
    return data_ ? data_.get_deleter().size_bytes : 0;
  }

 private:
  friend class DevicePool;
  DeviceMemory(std::shared_ptr<DevicePool> pool, void* data, size_t size_bytes)
      : data_(static_cast<char*>(data), {std::move(pool), size_bytes}) {}

  std::unique_ptr<char, FreeOnDevice> data_;
};

// The memory that an allocation takes is a multiple of this. The runtime
// promises an alignment of 256 bytes and does not say how it rounds; twice that
// errs to the side on which the quota refuses what the device would give.
// gpu_benchmark prints what a pool says that it has used.
inline constexpr size_t kAllocationGranularity = 512;

// The memory of one device, up to a quota, which counts what allocations take:
// their sizes, rounded up. Thread-safe.
//
// Allocates on a stream that does nothing else, so that no allocation waits
// behind a kernel. A stream that is to use the memory must wait for that one
// first: OrderBehindAllocations. Memory must be freed only when the device is
// done with it; uploads alone may still run (OrderFreesBehind).
class DevicePool : public std::enable_shared_from_this<DevicePool> {
 public:
  // Errors: those of the device.
  static absl::StatusOr<std::shared_ptr<DevicePool>> Create(
      std::unique_ptr<Device> device, uint64_t quota_bytes);

  // Returns device memory, 256-byte aligned, uninitialised; empty for 0 bytes.
  // Where the device has no more in one piece, trims it, which waits for frees.
  // Errors: ResourceExhausted (beyond the quota, or the device has no more) ·
  // Unavailable (the device has failed) · Internal.
  absl::StatusOr<DeviceMemory> Allocate(size_t size_bytes);

  // Makes later work of `stream` wait, on the device, until all memory that was
  // allocated so far can be used. Errors: those of the device.
  absl::Status OrderBehindAllocations(Stream& stream);

  // Sets the lane behind whose work memory is freed from now on, on the device;
  // null for none. The lane must outlive the pool, or null be set before.
  void OrderFreesBehind(StreamLane* uploads);

  // Gives freed memory back to the driver, so that other processes can have it,
  // if nothing was allocated or freed between the last kIdleLooks calls.
  // Allocations take longer then until the pool has grown again. To be called
  // once a period.
  void TrimIfIdle();
  static constexpr int kIdleLooks = 10;

  Device& device() { return *device_; }
  uint64_t quota_bytes() const { return quota_bytes_; }
  uint64_t used_bytes() const;

 private:
  friend struct FreeOnDevice;
  DevicePool(std::unique_ptr<Device> device, uint64_t quota_bytes)
      : device_(std::move(device)), quota_bytes_(quota_bytes) {}

  // Counts the bytes against the quota. Errors: ResourceExhausted.
  absl::Status Reserve(size_t size_bytes);
  void Release(size_t size_bytes);
  // Allocates on stream_, and records allocated_ behind that.
  absl::StatusOr<void*> AllocateInOrder(size_t size_bytes);
  void Free(void* data, size_t size_bytes);

  const std::unique_ptr<Device> device_;
  const uint64_t quota_bytes_;
  // Set by Create.
  std::unique_ptr<Stream> stream_;
  // Behind the last allocation.
  std::unique_ptr<Event> allocated_;

  Mutex uploads_mutex_;
  StreamLane* uploads_ ABSL_GUARDED_BY(uploads_mutex_) = nullptr;

  mutable Mutex mutex_;
  uint64_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Whether something was freed since the device was trimmed, and how many
  // calls of TrimIfIdle have found nothing since something changed.
  bool has_freed_ ABSL_GUARDED_BY(mutex_) = false;
  int num_idle_looks_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_DEVICE_POOL_H_
