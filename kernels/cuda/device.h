// The interface of a GPU that the CUDA backend needs.
//
// Two implementations: CudaDevice over the CUDA runtime, and the tests' fake,
// which runs the same kernels' code on host threads, late, in other orders and
// with faults. No CUDA header is included here or above.
//
// Every call returns a status: ResourceExhausted where memory is short, else
// Internal, with what was called and what came back. Some errors leave nothing
// of a GPU to be used: then the device has failed (`health`), and every later
// call is Unavailable with the first cause.

#ifndef TENSORKV_KERNELS_CUDA_DEVICE_H_
#define TENSORKV_KERNELS_CUDA_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "kernels/cuda/update_work.h"
#include "kernels/device_health.h"

namespace tensorkv {

// What a stream is for.
enum class StreamUse {
  kMemory,    // allocating and freeing
  kToDevice,  // copies from pinned memory
  kCompute,   // updates
  kToHost,    // copies to pinned memory
  kLink,      // transfers from and to devices of other processes
};
inline constexpr int kNumStreamUses = 5;

// A point in the work of a stream (cudaEvent). Thread-safe.
class Event {
 public:
  virtual ~Event() = default;

  // Blocks until the device has done the work that was on the stream when the
  // event was last recorded. Errors: also those of that work.
  virtual absl::Status Wait() = 0;
};

// Work that the device does in the order of the calls; streams run side by
// side. Calls return at once, before the work is done, except where they say
// that they block. Memory given to a call must stay until its work is done.
// Thread-safe, but the order of calls of several threads is unknown.
class Stream {
 public:
  // Blocks until all work of the stream is done.
  virtual ~Stream() = default;

  // Copy bytes between page-locked memory of the host and the device.
  // REQUIRES: `pinned` is memory of AllocatePinned, or other memory of the host
  // that the device can read (Device::CanRead).
  virtual absl::Status CopyToDevice(void* device, const void* pinned,
                                    size_t size_bytes) = 0;
  virtual absl::Status CopyToHost(void* pinned, const void* device,
                                  size_t size_bytes) = 0;

  // Runs an update kernel. A table that travels with the launch is copied
  // before this returns. REQUIRES: any other table is in device memory, and so
  // are all tensors, except that contributions may be wherever the device can
  // read, and an assign may write to pinned memory.
  virtual absl::Status Launch(const UpdateLaunch& launch) = 0;

  // Sets `event` to the point behind all work of this stream so far.
  virtual absl::Status Record(Event& event) = 0;

  // Makes later work of this stream wait, on the device, for the point to which
  // `event` is set now. Blocks no thread.
  virtual absl::Status WaitFor(const Event& event) = 0;

  // Blocks until all work of this stream is done.
  virtual absl::Status Synchronize() = 0;

  // Returns whether all work of this stream is done.
  virtual absl::StatusOr<bool> IsDone() = 0;

  // Returns the cudaStream_t, for libraries; it is valid where the device is
  // the calling thread's current one, which a call of IsDone makes it.
  virtual void* handle() = 0;
};

// One GPU. Thread-safe. Outlives its streams, events and memory.
class Device {
 public:
  virtual ~Device() = default;

  // Returns the name, such as "cuda:0".
  virtual absl::string_view name() const = 0;

  virtual DeviceHealth& health() = 0;

  // Returns how long a thread that waits, for the device or for more work,
  // should spin before it sleeps: about the time that waking it takes.
  virtual absl::Duration spin_time() const = 0;

  // Returns whether kernels and copies of this device can read the byte at
  // `data`: it is in memory of the device, or in pinned memory of the host.
  virtual bool CanRead(const void* data) = 0;

  // Begins a range with that name in profiles (NVTX), and returns its id, with
  // which EndRange ends it, on any thread. REQUIRES: `name` is a literal.
  virtual uint64_t BeginRange(const char* name) = 0;
  virtual void EndRange(uint64_t range) = 0;

  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream(
      StreamUse use) = 0;
  virtual absl::StatusOr<std::unique_ptr<Event>> CreateEvent() = 0;

  // Returns device memory, 256-byte aligned, uninitialised, from the device's
  // pool. Later work of `stream` may use it, and other streams that wait for
  // this one. REQUIRES: size_bytes > 0.
  virtual absl::StatusOr<void*> Allocate(size_t size_bytes, Stream& stream) = 0;

  // Frees device memory, after the work that `stream` has now.
  virtual absl::Status Free(void* data, Stream& stream) = 0;

  // Gives memory that was freed back to the system, in whole pages, so that it
  // can be allocated in larger pieces. Blocks until `stream` is done.
  virtual absl::Status Trim(Stream& stream) = 0;

  // Returns page-locked host memory, which copies can use. May stop the device
  // meanwhile. REQUIRES: size_bytes > 0.
  virtual absl::StatusOr<void*> AllocatePinned(size_t size_bytes) = 0;
  virtual absl::Status FreePinned(void* data) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_DEVICE_H_
