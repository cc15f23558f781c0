// Opens the device that was chosen.

#ifndef TENSORKV_SERVICE_SERVER_OPEN_DEVICE_H_
#define TENSORKV_SERVICE_SERVER_OPEN_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/open_cuda_backend.h"
#include "kernels/device_usage.h"
#include "service/server/device_choice.h"

namespace tensorkv {

struct OpenedDevice {
  std::unique_ptr<Backend> backend;
  // The bytes that the server has for tensors and what comes with them: of the
  // GPU's memory, or of the host's.
  uint64_t memory_bytes = 0;
  // Returns what the device uses, as long as the backend is there; null for the
  // CPU.
  std::function<DeviceUsage()> usage;
  // Opens the link to other servers' GPUs, by a library that it is given; null
  // for the CPU.
  OpenLink open_link;
  // Says why kAuto has chosen the CPU; else empty.
  std::string why_not_cuda;
};

// Opens the device of `choice`; a GPU by `open_cuda`. `num_threads` are the CPU
// backend's; 0 is one per CPU.
// Errors: FailedPrecondition, naming the flag, if a GPU that was asked for
// cannot be used, whatever the reason.
absl::StatusOr<OpenedDevice> OpenDevice(
    const DeviceChoice& choice, int num_threads,
    absl::FunctionRef<absl::StatusOr<OpenedCudaBackend>(int ordinal)>
        open_cuda);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_OPEN_DEVICE_H_
