// The backend that keeps tensors in the memory of a GPU.

#ifndef TENSORKV_KERNELS_CUDA_CUDA_BACKEND_H_
#define TENSORKV_KERNELS_CUDA_CUDA_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/device_pool.h"
#include "kernels/cuda/pinned_arena.h"
#include "kernels/cuda/staged_copies.h"
#include "kernels/cuda/update_batcher.h"
#include "kernels/device_usage.h"

namespace tensorkv {

struct CudaBackendOptions {
  // Bounds the memory of the device that is allocated, tables of work included.
  uint64_t quota_bytes = 0;
  StagedCopiesOptions staging;
  UpdateTableOptions updates;
  // Bounds the page-locked memory of AllocateStaging.
  size_t max_pinned_bytes = size_t{1} << 30;
};

// Tensors on one GPU. Takes every dtype and gives the bits of the CPU backend,
// except which NaN a NaN is. Thread-safe.
//
// Callers put their work on the streams themselves, at the same time. A plan
// ends when the device has done its work, so its memory may be reused then;
// memory that is freed while bytes are uploaded to it is freed behind them. No
// tensor needs events of its own.
//
// A buffer may outlive the backend. Once the device has failed, every call is
// Unavailable with the cause; what tensors hold is lost.
class CudaBackend final : public Backend {
 public:
  // Errors: those of the device: ResourceExhausted · Unavailable · Internal.
  static absl::StatusOr<std::unique_ptr<CudaBackend>> Create(
      std::unique_ptr<Device> device, const CudaBackendOptions& options);
  // REQUIRES: no call is running, and all copies are done.
  ~CudaBackend() override = default;

  absl::string_view name() const override { return pool_->device().name(); }
  bool is_host() const override { return false; }
  DeviceHealth& health() override { return pool_->device().health(); }
  absl::StatusOr<RefPtr<Buffer>> Allocate(
      size_t size_bytes, RefPtr<MemoryAccount> account) override;
  absl::StatusOr<RefPtr<Buffer>> AllocateStaging(
      size_t size_bytes, RefPtr<MemoryAccount> account) override;
  bool CanRead(const char* data, size_t size_bytes) const override {
    return arena_->CanRead(data, size_bytes);
  }
  absl::Status Submit(Plan plan, PlanCallback done) override;
  void Probe(absl::AnyInvocable<void() &&> done) override;
  absl::Status ReserveForUpdates(absl::Span<const TensorUpdate> batch) override;

  DeviceUsage usage() const;

  // Has the device, and keeps it as long as anyone has a copy of this pointer.
  const std::shared_ptr<DevicePool>& pool() const { return pool_; }

 private:
  CudaBackend(std::shared_ptr<DevicePool> pool, size_t max_pinned_bytes)
      : pool_(std::move(pool)),
        arena_(PinnedArena::Create(pool_, max_pinned_bytes)) {}

  // The steps of a plan that follow its uploads.
  struct Rest;
  // Starts the steps behind uploads that EnqueueToDevice has enqueued as
  // `uploads`, if `started` is OK, and returns `started`. Calls `done` when the
  // steps and the uploads are over.
  absl::Status StartBehindEnqueued(Plan plan, absl::Status started,
                                   const StreamLane::Mark& uploads,
                                   PlanCallback done);
  // Starts the zeros, then the updates, then the downloads, each when the step
  // before is done, and calls `done` after the last, or after a step that
  // fails.
  void StartRest(Plan plan, PlanCallback done);
  // Starts the zeros; the updates and the downloads follow.
  void StartFromZeros(std::shared_ptr<Rest> rest);
  // Starts the updates; the downloads follow.
  void StartFromUpdates(std::shared_ptr<Rest> rest);

  const std::shared_ptr<DevicePool> pool_;
  const std::shared_ptr<PinnedArena> arena_;
  // Set by Create.
  std::unique_ptr<StagedCopies> copies_;
  std::unique_ptr<UpdateBatcher> updates_;  // uses the copies' lane
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_CUDA_BACKEND_H_
