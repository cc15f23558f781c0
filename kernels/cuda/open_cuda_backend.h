// Opens a backend on a GPU. In a build without the CUDA toolkit that fails.

#ifndef TENSORKV_KERNELS_CUDA_OPEN_CUDA_BACKEND_H_
#define TENSORKV_KERNELS_CUDA_OPEN_CUDA_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/device_link.h"
#include "kernels/device_usage.h"

namespace tensorkv {

// How much memory a backend may take.
struct GpuMemoryOptions {
  // The share to take of what the GPU has free, above 0 and at most 1.
  double share = 0.95;
  // If not 0, the bytes of the GPU to take in place of a share.
  uint64_t bytes = 0;
  // The most page-locked memory of the host for tensors of calls.
  uint64_t max_pinned_bytes = uint64_t{1} << 30;
};

// Loads NCCL from `library`, as dlopen finds it, and returns the link from the
// backend's GPU to those of other processes. The function is for as long as the
// backend lives; the link may outlive it.
// Errors: FailedPrecondition: there is no such library, or it is too old.
using OpenLink = std::function<absl::StatusOr<std::unique_ptr<DeviceLink>>(
    const std::string& library)>;

struct OpenedCudaBackend {
  std::unique_ptr<Backend> backend;
  // The quota: the bytes of the GPU that the backend may allocate.
  uint64_t memory_bytes = 0;
  // Returns what the backend uses now. REQUIRES: the backend lives.
  std::function<DeviceUsage()> usage;
  OpenLink open_link;
};

// Opens GPU `ordinal` of those that the driver shows, with the quota that
// `memory` says, which is counted and not allocated at once. If the environment
// variable NCCL_HOSTID is set, the link does not tell which GPU it is of
// (DeviceLink::gpu), so that several processes on one GPU can meet.
// Errors: FailedPrecondition (this build has no CUDA; or no driver, no such GPU
// or none that this build can use) · ResourceExhausted (it has not so many
// bytes free) · Unavailable (the GPU has failed) · Internal.
absl::StatusOr<OpenedCudaBackend> OpenCudaBackend(
    int ordinal, const GpuMemoryOptions& memory = {});

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_OPEN_CUDA_BACKEND_H_
