// A real GPU. The only code that calls the CUDA runtime, with the kernels'
// launches (update_launch.h) and the translation of errors (cuda_status.h).

#ifndef TENSORKV_KERNELS_CUDA_CUDA_DEVICE_H_
#define TENSORKV_KERNELS_CUDA_CUDA_DEVICE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "kernels/cuda/device.h"

namespace tensorkv {

// Returns the number of GPUs that the driver shows. Errors: FailedPrecondition
// (no driver, or one that is too old for this build).
absl::StatusOr<int> NumCudaDevices();

// Puts a launch of `num_blocks` blocks on a stream; tests and benchmarks have
// kernels of their own.
using UpdateLauncher = cudaError_t (*)(const UpdateLaunch& launch,
                                       unsigned num_blocks,
                                       cudaStream_t stream);

// Launches the kernel of `launch`, of those that servers have. Returns
// cudaErrorInvalidDeviceFunction if there is none.
cudaError_t LaunchAnyUpdate(const UpdateLaunch& launch, unsigned num_blocks,
                            cudaStream_t stream);

// Settings that only a GPU can judge: the defaults are predictions, beside
// which gpu_benchmark measures others.
struct CudaDeviceOptions {
  // As Device::spin_time.
  absl::Duration spin_time = absl::Microseconds(50);
  // The most blocks of a launch for each multiprocessor, which then do several
  // tasks each; 0: a block for each task.
  unsigned blocks_per_multiprocessor = 0;
  UpdateLauncher launcher = &LaunchAnyUpdate;
  // True takes memory from a pool of CUDA, where the driver has pools; false by
  // cudaMalloc, as where it has none.
  bool uses_pool = true;
};

// Memory comes from a CUDA pool of the device's own, which keeps what was
// freed: allocating it from the system again would stop all streams. Where the
// driver has no pools, each allocation does. Streams do not wait for the
// default stream, which is not used. Waiting threads spin for spin_time, then
// sleep. Thread-safe.
class CudaDevice final : public Device {
 public:
  // Loads all kernels, so that a GPU for which this build has none is refused
  // here and no call waits for one later.
  // Errors: FailedPrecondition (no driver, no such GPU, one older than compute
  // capability 8.0 or without kernels) · ResourceExhausted · Unavailable (the
  // GPU has failed) · Internal.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(
      int ordinal, const CudaDeviceOptions& options = {});
  ~CudaDevice() override;

  absl::string_view name() const override { return name_; }
  DeviceHealth& health() override { return health_; }
  absl::Duration spin_time() const override { return options_.spin_time; }
  bool CanRead(const void* data) override;
  uint64_t BeginRange(const char* name) override;
  void EndRange(uint64_t range) override;
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(StreamUse use) override;
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override;
  absl::StatusOr<void*> Allocate(size_t size_bytes, Stream& stream) override;
  absl::Status Free(void* data, Stream& stream) override;
  absl::Status Trim(Stream& stream) override;
  absl::StatusOr<void*> AllocatePinned(size_t size_bytes) override;
  absl::Status FreePinned(void* data) override;

  // Returns the bytes of the GPU that were free when it was opened, with all
  // kernels loaded.
  uint64_t free_bytes() const { return free_bytes_; }
  // No other GPU of any machine has this id.
  const std::string& uuid() const { return uuid_; }

 private:
  friend class CudaEvent;
  friend class CudaStream;

  CudaDevice(int ordinal, const CudaDeviceOptions& options);

  // Makes this GPU the calling thread's current device (cudaSetDevice), as all
  // calls of the runtime need. Errors: Unavailable once the device has failed.
  absl::Status MakeCurrent();
  // Returns the status of `error`, with `call` in its message; marks the device
  // failed if the error means that.
  absl::Status Check(cudaError_t error, absl::string_view call);
  // Checks the GPU, loads kernels, creates the pool and sets the members below.
  absl::Status Open();
  absl::Status CheckUsable();
  absl::Status CreatePool();
  absl::Status LoadKernels();
  absl::StatusOr<int> Attribute(cudaDeviceAttr attribute);

  const int ordinal_;
  const CudaDeviceOptions options_;
  const std::string name_;
  DeviceHealth health_;
  // Set by Create. Null where there are no pools.
  cudaMemPool_t pool_ = nullptr;
  uint64_t free_bytes_ = 0;
  std::string uuid_;
  unsigned max_blocks_ = 1;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_CUDA_DEVICE_H_
