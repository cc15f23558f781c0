#include "kernels/cuda/open_cuda_backend.h"

#include <utility>

#include "base/status_macros.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_device.h"

namespace tensorkv {
namespace {

// The rest is for the kernels' code, and for what the pool cannot fill.
uint64_t QuotaOf(const CudaDevice& device) {
  return device.free_bytes() / 20 * 19;
}

}  // namespace

absl::StatusOr<OpenedCudaBackend> OpenCudaBackend(int ordinal) {
  ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device,
                   CudaDevice::Create(ordinal));
  const uint64_t quota_bytes = QuotaOf(*device);
  ASSIGN_OR_RETURN(
      std::unique_ptr<CudaBackend> backend,
      CudaBackend::Create(std::move(device), {.quota_bytes = quota_bytes}));
  const auto usage = [backend = backend.get()] { return backend->usage(); };
  return OpenedCudaBackend{std::move(backend), quota_bytes, usage};
}

}  // namespace tensorkv
