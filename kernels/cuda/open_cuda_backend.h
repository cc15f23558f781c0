// The way from a GPU's number to a backend. In a build without the CUDA toolkit
// it leads nowhere, but it is there.

#ifndef TENSORKV_KERNELS_CUDA_OPEN_CUDA_BACKEND_H_
#define TENSORKV_KERNELS_CUDA_OPEN_CUDA_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/device_usage.h"

namespace tensorkv {

struct OpenedCudaBackend {
  std::unique_ptr<Backend> backend;
  // Bytes of tensors that it can take.
  uint64_t memory_bytes = 0;
  // What it uses; as long as the backend is there.
  std::function<DeviceUsage()> usage;
};

// Takes nearly all memory that GPU `ordinal` has free as its quota.
// Errors: FailedPrecondition (this build has no CUDA; or no driver, no such GPU
// or none that this build can use) · ResourceExhausted · Internal.
absl::StatusOr<OpenedCudaBackend> OpenCudaBackend(int ordinal);

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_OPEN_CUDA_BACKEND_H_
