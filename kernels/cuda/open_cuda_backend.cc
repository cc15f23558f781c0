#include "kernels/cuda/open_cuda_backend.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/nccl/nccl_library.h"
#include "kernels/nccl/nccl_link.h"

namespace tensorkv {
namespace {

absl::StatusOr<uint64_t> QuotaOf(const CudaDevice& device,
                                 const GpuMemoryOptions& memory) {
  const uint64_t free_bytes = device.free_bytes();
  if (memory.bytes == 0) {
    return static_cast<uint64_t>(static_cast<double>(free_bytes) *
                                 memory.share);
  }
  if (memory.bytes <= free_bytes) return memory.bytes;
  return absl::ResourceExhaustedError(
      absl::StrCat(device.name(), ": expected at most the ", free_bytes,
                   " bytes that are free, got ", memory.bytes));
}

}  // namespace

absl::StatusOr<OpenedCudaBackend> OpenCudaBackend(
    int ordinal, const GpuMemoryOptions& memory) {
  ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device,
                   CudaDevice::Create(ordinal));
  // Who names hosts says that NCCL may take two processes on one GPU.
  const std::string gpu =
      std::getenv("NCCL_HOSTID") == nullptr ? device->uuid() : "";
  ASSIGN_OR_RETURN(const uint64_t quota_bytes, QuotaOf(*device, memory));
  ASSIGN_OR_RETURN(
      std::unique_ptr<CudaBackend> backend,
      CudaBackend::Create(std::move(device),
                          {.quota_bytes = quota_bytes,
                           .max_pinned_bytes = memory.max_pinned_bytes}));
  const auto usage = [backend = backend.get()] { return backend->usage(); };
  const auto open_link = [pool = backend->pool(),
                          gpu](const std::string& library)
      -> absl::StatusOr<std::unique_ptr<DeviceLink>> {
    ASSIGN_OR_RETURN(const NcclFunctions nccl, LoadNccl(library));
    return std::make_unique<NcclLink>(pool, nccl, gpu);
  };
  return OpenedCudaBackend{std::move(backend), quota_bytes, usage, open_link};
}

}  // namespace tensorkv
