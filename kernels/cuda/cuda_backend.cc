#include "kernels/cuda/cuda_backend.h"

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "kernels/last_of_many.h"
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
  ASSIGN_OR_RETURN(backend->copies_, StagedCopies::Create(backend->pool_.get(),
                                                          backend->arena_.get(),
                                                          options.staging));
  ASSIGN_OR_RETURN(
      backend->updates_,
      UpdateBatcher::Create(backend->pool_.get(),
                            &backend->copies_->to_device(), options.updates));
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

struct CudaBackend::Rest {
  Plan plan;
  std::vector<TensorUpdate> zeros;
  PlanCallback done;
};

absl::Status CudaBackend::Submit(Plan plan, PlanCallback done) {
  absl::Status status = CheckBatch(plan.updates);
  if (status.ok()) status = health().status();
  if (!status.ok()) {
    std::move(done)(status);
    return status;
  }
  if (plan.empty()) {
    copies_->to_device().WhenDone(std::move(done));
    return absl::OkStatus();
  }
  if (!plan.uploads.empty() && !(plan.zeros.empty() && plan.updates.empty())) {
    StreamLane::Mark mark;
    const absl::StatusOr<bool> started =
        copies_->EnqueueToDevice(plan.uploads, mark);
    if (!started.ok() || *started) {
      return StartBehindEnqueued(std::move(plan), started.status(), mark,
                                 std::move(done));
    }
  }
  const auto both = std::make_shared<LastOfMany>(2, std::move(done));
  const auto end = [both](const absl::Status& ended) { both->End(ended); };
  status = copies_->ToDevice(plan.uploads, end);
  if (!status.ok()) {
    both->End(status);
    return status;
  }
  StartRest(std::move(plan), end);
  return absl::OkStatus();
}

// What follows is over after the uploads, unless it fails.
absl::Status CudaBackend::StartBehindEnqueued(Plan plan, absl::Status started,
                                              const StreamLane::Mark& uploads,
                                              PlanCallback done) {
  StreamLane& lane = copies_->to_device();
  PlanCallback over = [&lane, uploads, done = std::move(done)](
                          const absl::Status& status) mutable {
    lane.EndEnqueued(uploads);
    std::move(done)(status);
  };
  PlanCallback end =
      [&lane, over = std::move(over)](const absl::Status& status) mutable {
        if (status.ok()) return std::move(over)(status);
        lane.WhenDone(
            [status, over = std::move(over)](const absl::Status&) mutable {
              std::move(over)(status);
            });
      };
  if (!started.ok()) {
    std::move(end)(started);
  } else {
    StartRest(std::move(plan), std::move(end));
  }
  return started;
}

void CudaBackend::StartRest(Plan plan, PlanCallback done) {
  auto rest = std::make_shared<Rest>();
  rest->zeros = UpdateBatcher::ZerosOf(plan.zeros);
  rest->plan = std::move(plan);
  rest->done = std::move(done);
  StartFromZeros(std::move(rest));
}

void CudaBackend::StartFromZeros(std::shared_ptr<Rest> rest) {
  const Rest& plan = *rest;
  updates_->Start(plan.zeros, [this, rest = std::move(rest)](
                                  const absl::Status& status) mutable {
    if (!status.ok()) return std::move(rest->done)(status);
    StartFromUpdates(std::move(rest));
  });
}

void CudaBackend::StartFromUpdates(std::shared_ptr<Rest> rest) {
  const Plan& plan = rest->plan;
  updates_->Start(plan.updates, [this, rest = std::move(rest)](
                                    const absl::Status& status) mutable {
    if (!status.ok()) return std::move(rest->done)(status);
    copies_->ToHost(std::move(rest->plan.downloads), std::move(rest->done));
  });
}

// Probes each of the streams: the last to come to its end tells, and looks
// whether the device has been idle.
void CudaBackend::Probe(absl::AnyInvocable<void() &&> done) {
  struct Lanes {
    std::atomic<int> num_left = 3;
    absl::AnyInvocable<void() &&> done;
  };
  const auto lanes = std::make_shared<Lanes>();
  lanes->done = std::move(done);
  for (StreamLane* const lane :
       {&copies_->to_device(), &copies_->to_host(), &updates_->lane()}) {
    lane->WhenDone([this, lanes](const absl::Status&) {
      if (--lanes->num_left > 0) return;
      pool_->TrimIfIdle();
      std::move(lanes->done)();
    });
  }
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

absl::Status CudaBackend::ReserveForUpdates(
    absl::Span<const TensorUpdate> batch) {
  RETURN_IF_ERROR(health().status());
  return updates_->ReserveForUpdates(batch);
}

}  // namespace tensorkv
