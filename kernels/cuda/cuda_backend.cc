#include "kernels/cuda/cuda_backend.h"

#include <atomic>
#include <memory>
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

}  // namespace

absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Create(
    std::unique_ptr<Device> device, const CudaBackendOptions& options) {
  ASSIGN_OR_RETURN(std::shared_ptr<DevicePool> pool,
                   DevicePool::Create(std::move(device), options.quota_bytes));
  std::unique_ptr<CudaBackend> backend(
      new CudaBackend(std::move(pool), options.max_pinned_bytes));
  ASSIGN_OR_RETURN(
      backend->copies_,
      StagedCopies::Create(backend->pool_.get(), backend->arena_.get(),
                           &backend->submission_, options.staging));
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

absl::StatusOr<RefPtr<Buffer>> CudaBackend::AllocateStaging(
    size_t size_bytes, RefPtr<MemoryAccount> account) {
  RefPtr<Buffer> pinned = arena_->Allocate(size_bytes, account);
  if (pinned) return pinned;
  return HostBuffer::Allocate(size_bytes, std::move(account));
}

absl::Status CudaBackend::Zero(absl::Span<const MutableTensorView> tensors) {
  RETURN_IF_ERROR(health().status());
  return updates_->Zero(tensors);
}

absl::Status CudaBackend::CopyToDevice(absl::Span<const MemoryCopy> copies) {
  RETURN_IF_ERROR(health().status());
  return copies_->ToDevice(copies);
}

void CudaBackend::CopyToHost(std::vector<MemoryCopy> copies,
                             CopiedCallback done) {
  const absl::Status status = health().status();
  if (!status.ok()) return std::move(done)(status);
  copies_->ToHost(std::move(copies), std::move(done));
}

// Through each of the streams: the last to come to its end tells.
void CudaBackend::Probe(absl::AnyInvocable<void() &&> done) {
  struct Lanes {
    std::atomic<int> num_left = 3;
    absl::AnyInvocable<void() &&> done;
  };
  const auto lanes = std::make_shared<Lanes>();
  lanes->done = std::move(done);
  submission_.Submit([this, lanes] {
    for (StreamLane* const lane :
         {&copies_->to_device(), &copies_->to_host(), &updates_->lane()}) {
      lane->WhenDone([lanes](const absl::Status&) {
        if (--lanes->num_left == 0) std::move(lanes->done)();
      });
    }
  });
}

DeviceUsage CudaBackend::usage() const {
  const int num_slots = copies_->num_slots();
  return {.used_bytes = pool_->used_bytes(),
          .quota_bytes = pool_->quota_bytes(),
          .num_staging_slots = num_slots,
          .num_staging_slots_in_use = num_slots - copies_->num_free_slots(),
          .pinned_bytes = arena_->size_bytes(),
          .pinned_bytes_in_use = arena_->used_bytes(),
          .batches = updates_->usage()};
}

absl::Status CudaBackend::Prepare(absl::Span<const TensorUpdate> batch) {
  RETURN_IF_ERROR(health().status());
  return updates_->Prepare(batch);
}

absl::Status CudaBackend::Apply(absl::Span<const TensorUpdate> batch) {
  RETURN_IF_ERROR(CheckBatch(batch));
  RETURN_IF_ERROR(health().status());
  return updates_->Apply(batch);
}

}  // namespace tensorkv
