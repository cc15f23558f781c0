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

// GPUs that the driver shows. Errors: FailedPrecondition (no driver, or one
// that is too old for this build).
absl::StatusOr<int> NumCudaDevices();

// Puts a launch of so many blocks on a stream, with kernels of a build.
using UpdateLauncher = cudaError_t (*)(const UpdateLaunch& launch,
                                       unsigned num_blocks,
                                       cudaStream_t stream);

// With the kernels that servers have.
cudaError_t LaunchAnyUpdate(const UpdateLaunch& launch, unsigned num_blocks,
                            cudaStream_t stream);

// What only a GPU can judge: the defaults are predictions, beside which
// gpu_benchmark measures others.
struct CudaDeviceOptions {
  // As Device::spin_time.
  absl::Duration spin_time = absl::Microseconds(50);
  // How many blocks of a launch there are at most for each multiprocessor, to
  // take turns at the tasks; 0: one for each task.
  unsigned blocks_per_multiprocessor = 0;
  UpdateLauncher launcher = &LaunchAnyUpdate;
  // Without a pool memory comes as from a driver that has none.
  bool uses_pool = true;
};

// Memory comes from a pool of its own, which keeps what was freed: asking the
// system again would stop all streams. Where the driver has no pools, it is
// asked each time. Streams do not wait for the default stream, which is not
// used. Waiting threads sleep. Thread-safe.
class CudaDevice final : public Device {
 public:
  // Loads all kernels, so that a GPU for which this build has none is refused
  // here and no call waits for one later.
  // Errors: FailedPrecondition (no driver, no such GPU, one older than compute
  // capability 8.0 or without kernels) · ResourceExhausted · Internal.
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

  // What the GPU had free when it was opened.
  uint64_t free_bytes() const { return free_bytes_; }
  // No other GPU of any machine has this id.
  const std::string& uuid() const { return uuid_; }

 private:
  friend class CudaEvent;
  friend class CudaStream;

  CudaDevice(int ordinal, const CudaDeviceOptions& options);

  // Makes this GPU the calling thread's. Errors: Unavailable after a failure.
  absl::Status Begin();
  // What `error` means; remembers that the device has failed.
  absl::Status Check(cudaError_t error, absl::string_view call);
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
