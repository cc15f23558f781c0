#include "kernels/cuda/cuda_backend.h"

#include <utility>

#include "base/status_macros.h"
#include "kernels/update_check.h"

namespace tensorkv {
namespace {

// Device memory that tensors share.
class DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(DeviceMemory memory, RefPtr<MemoryAccount> account)
      : Buffer(memory.data(), memory.size_bytes(), std::move(account)),
        memory_(std::move(memory)) {}

 private:
  const DeviceMemory memory_;
};

bool IsOnDevice(const Tensor& tensor) {
  return dynamic_cast<const DeviceBuffer*>(tensor.buffer().get()) != nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Create(
    std::unique_ptr<Device> device, const CudaBackendOptions& options) {
  ASSIGN_OR_RETURN(std::shared_ptr<DevicePool> pool,
                   DevicePool::Create(std::move(device), options.quota_bytes));
  std::unique_ptr<CudaBackend> backend(new CudaBackend(std::move(pool)));
  ASSIGN_OR_RETURN(backend->copies_, StagedCopies::Create(backend->pool_.get(),
                                                          &backend->submission_,
                                                          options.staging));
  ASSIGN_OR_RETURN(
      backend->updates_,
      UpdateBatcher::Create(backend->pool_.get(), &backend->submission_));
  return backend;
}

absl::StatusOr<RefPtr<Buffer>> CudaBackend::Allocate(
    size_t size_bytes, RefPtr<MemoryAccount> account) {
  ASSIGN_OR_RETURN(DeviceMemory memory, pool_->Allocate(size_bytes));
  return RefPtr<Buffer>(
      new DeviceBuffer(std::move(memory), std::move(account)));
}

absl::Status CudaBackend::Zero(absl::Span<const MutableTensorView> tensors) {
  RETURN_IF_ERROR(health());
  return updates_->Zero(tensors);
}

absl::StatusOr<Tensor> CudaBackend::ToDevice(const Tensor& host) {
  RETURN_IF_ERROR(health());
  if (IsOnDevice(host)) return host;
  ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                   Allocate(host.size_bytes(), /*account=*/nullptr));
  RETURN_IF_ERROR(copies_->ToDevice(host.data(), buffer->mutable_data(),
                                    host.size_bytes()));
  return Tensor::OfBuffer(host.dtype(), host.shape(), std::move(buffer));
}

absl::StatusOr<Tensor> CudaBackend::ToHost(const Tensor& device) {
  RETURN_IF_ERROR(health());
  if (!IsOnDevice(device)) return device;
  ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                   HostBuffer::Allocate(device.size_bytes()));
  RETURN_IF_ERROR(copies_->ToHost(device.data(), buffer->mutable_data(),
                                  device.size_bytes()));
  return Tensor::OfBuffer(device.dtype(), device.shape(), std::move(buffer));
}

absl::Status CudaBackend::Apply(absl::Span<const TensorUpdate> batch) {
  RETURN_IF_ERROR(CheckBatch(batch));
  RETURN_IF_ERROR(health());
  return updates_->Apply(batch);
}

}  // namespace tensorkv
