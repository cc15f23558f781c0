// What the CUDA backend needs of a GPU, and nothing else of it.
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

// A point in a stream. Thread-safe.
class Event {
 public:
  virtual ~Event() = default;

  // Blocks until the device has done what was on the stream when the event was
  // last recorded. Errors: also what that work ended with.
  virtual absl::Status Wait() = 0;
};

// Work that the device does in order, one after the other; streams run side by
// side. Calls return at once, before the work is done. Memory given to a call
// must stay until then. Thread-safe, but only one thread can know the order.
class Stream {
 public:
  // Waits for the work.
  virtual ~Stream() = default;

  // REQUIRES: `pinned` came from AllocatePinned.
  virtual absl::Status CopyToDevice(void* device, const void* pinned,
                                    size_t size_bytes) = 0;
  virtual absl::Status CopyToHost(void* pinned, const void* device,
                                  size_t size_bytes) = 0;

  // Runs an update kernel. A table that travels with it is copied before this
  // returns. REQUIRES: any other is in device memory, and so are all tensors;
  // contributions may be wherever it can read, and what it assigns may go to
  // pinned memory.
  virtual absl::Status Launch(const UpdateLaunch& launch) = 0;

  // Moves `event` behind all work of this stream so far.
  virtual absl::Status Record(Event& event) = 0;

  // Has later work of this stream wait for where `event` is now.
  virtual absl::Status WaitFor(const Event& event) = 0;

  // Blocks until all work of this stream is done.
  virtual absl::Status Synchronize() = 0;

  // Whether all work of this stream is done.
  virtual absl::StatusOr<bool> IsDone() = 0;

  // By which libraries know the stream, where the device is that of the calling
  // thread: IsDone makes it so.
  virtual void* handle() = 0;
};

// One GPU. Thread-safe. Outlives its streams, events and memory.
class Device {
 public:
  virtual ~Device() = default;

  // "cuda:0".
  virtual absl::string_view name() const = 0;

  virtual DeviceHealth& health() = 0;

  // How long a thread that waits for the device, or for work to wait for, looks
  // again and again before it sleeps: about what waking it takes.
  virtual absl::Duration spin_time() const = 0;

  // Whether kernels and copies of this device can read what is there: memory of
  // its own, or pinned.
  virtual bool CanRead(const void* data) = 0;

  // Marks, for those who look at a profile, that what is called `name` begins,
  // and that it has ended: on any thread. `name` lives for ever.
  virtual uint64_t BeginRange(const char* name) = 0;
  virtual void EndRange(uint64_t range) = 0;

  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream(
      StreamUse use) = 0;
  virtual absl::StatusOr<std::unique_ptr<Event>> CreateEvent() = 0;

  // Device memory, 256-byte aligned, uninitialised, from the device's pool.
  // What `stream` does later may use it, and what waits for that.
  // REQUIRES: size_bytes > 0.
  virtual absl::StatusOr<void*> Allocate(size_t size_bytes, Stream& stream) = 0;

  // Gives device memory back, after what `stream` is doing.
  virtual absl::Status Free(void* data, Stream& stream) = 0;

  // Gives memory back that was freed, as far as it is whole: what is then
  // allocated may be put together anew. Waits for the frees of `stream`.
  virtual absl::Status Trim(Stream& stream) = 0;

  // Host memory that copies can use, page-locked. REQUIRES: size_bytes > 0.
  virtual absl::StatusOr<void*> AllocatePinned(size_t size_bytes) = 0;
  virtual absl::Status FreePinned(void* data) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_DEVICE_H_
