// The way from a GPU's number to a backend. In a build without the CUDA toolkit
// it leads nowhere, but it is there.

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

// What a backend may take of memories.
struct GpuMemoryOptions {
  // The share to take of what the GPU has free, above 0 and at most 1.
  double share = 0.95;
  // Not 0: to take so many bytes of it instead.
  uint64_t bytes = 0;
  // Page-locked memory of the host that tensors of calls are in.
  uint64_t max_pinned_bytes = uint64_t{1} << 30;
};

// The way from the backend's GPU to those of other processes, by that library
// of NCCL, as dlopen finds it; as long as the backend is there, and what it
// returns for as long as it likes. Errors: FailedPrecondition: there is none.
using OpenLink = std::function<absl::StatusOr<std::unique_ptr<DeviceLink>>(
    const std::string& library)>;

struct OpenedCudaBackend {
  std::unique_ptr<Backend> backend;
  // Bytes of tensors that it can take.
  uint64_t memory_bytes = 0;
  // What it uses; as long as the backend is there.
  std::function<DeviceUsage()> usage;
  OpenLink open_link;
};

// Takes what `memory` says of GPU `ordinal` as its quota.
// Errors: FailedPrecondition (this build has no CUDA; or no driver, no such GPU
// or none that this build can use) · ResourceExhausted (it has not so many
// bytes free) · Internal.
absl::StatusOr<OpenedCudaBackend> OpenCudaBackend(
    int ordinal, const GpuMemoryOptions& memory = {});

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_OPEN_CUDA_BACKEND_H_
