#include "kernels/cuda/update_batcher.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace tensorkv {
namespace {

// A few hundred updates: it seldom grows.
constexpr size_t kMinTableBytes = 64 << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateBatcher>> UpdateBatcher::Create(
    DevicePool* pool, Executor* submission) {
  std::unique_ptr<UpdateBatcher> batcher(new UpdateBatcher(pool, submission));
  ASSIGN_OR_RETURN(batcher->compute_,
                   StreamLane::Create(&pool->device(), StreamUse::kCompute));
  return batcher;
}

absl::Status UpdateBatcher::Apply(absl::Span<const TensorUpdate> batch) {
  if (batch.empty()) return absl::OkStatus();
  const auto job = std::make_shared<Job>(batch);
  bool is_first;
  {
    MutexLock lock(&mutex_);
    pending_.push_back(job);
    is_first = !std::exchange(is_busy_, true);
  }
  if (is_first) submission_.Submit([this] { StartNext(); });
  return job->done.Wait();
}

void UpdateBatcher::StartNext() {
  Jobs jobs = TakePending();
  if (jobs.empty()) return;
  UpdateTable table;
  for (const auto& job : jobs) table.Add(job->batch);
  Start start = StartOf(table);
  compute_->WhenDone([this, jobs = std::move(jobs),
                      start = std::move(start)](const absl::Status& done) {
    Finish(jobs, start, done);
  });
}

UpdateBatcher::Jobs UpdateBatcher::TakePending() {
  MutexLock lock(&mutex_);
  is_busy_ = !pending_.empty();
  return std::exchange(pending_, {});
}

UpdateBatcher::Start UpdateBatcher::StartOf(const UpdateTable& table) {
  Start start;
  if (table.empty()) return start;
  start.status = Upload(table);
  if (!start.status.ok()) return start;
  for (const UpdateLaunch& launch : table.LaunchesAt(device_table_.data())) {
    start.status = compute_->stream().Launch(launch);
    if (!start.status.ok()) return start;
    ++start.num_launches;
  }
  return start;
}

absl::Status UpdateBatcher::Upload(const UpdateTable& table) {
  const size_t size_bytes = table.size_bytes();
  RETURN_IF_ERROR(MakeRoomForTable(size_bytes));
  table.Write(host_table_.data());
  RETURN_IF_ERROR(pool_.OrderBehindAllocations(compute_->stream()));
  return compute_->stream().CopyToDevice(device_table_.data(),
                                         host_table_.data(), size_bytes);
}

absl::Status UpdateBatcher::MakeRoomForTable(size_t size_bytes) {
  if (size_bytes > host_table_.size_bytes()) {
    const size_t room =
        std::max({size_bytes, 2 * host_table_.size_bytes(), kMinTableBytes});
    ASSIGN_OR_RETURN(host_table_, PinnedMemory::Create(&pool_.device(), room));
  }
  if (size_bytes > device_table_.size_bytes()) {
    ASSIGN_OR_RETURN(device_table_, pool_.Allocate(host_table_.size_bytes()));
  }
  return absl::OkStatus();
}

void UpdateBatcher::Finish(const Jobs& jobs, const Start& start,
                           const absl::Status& done) {
  absl::Status status = start.status;
  status.Update(done);
  if (!status.ok() && start.num_launches > 0) {
    status = pool_.device().health().Fail(status);
  }
  submission_.Submit([this] { StartNext(); });
  // Last: the callers may destroy this object now.
  for (const auto& job : jobs) job->done.Set(status);
}

size_t UpdateBatcher::num_waiting() {
  MutexLock lock(&mutex_);
  return pending_.size();
}

absl::Status UpdateBatcher::Zero(absl::Span<const MutableTensorView> tensors) {
  const auto zeroed = std::make_shared<Completion>();
  submission_.Submit([this, tensors, zeroed] {
    absl::Status started = EnqueueZeros(tensors);
    compute_->WhenDone(
        [zeroed, started = std::move(started)](absl::Status done) mutable {
          started.Update(done);
          zeroed->Set(started);
        });
  });
  return zeroed->Wait();
}

absl::Status UpdateBatcher::EnqueueZeros(
    absl::Span<const MutableTensorView> tensors) {
  RETURN_IF_ERROR(pool_.OrderBehindAllocations(compute_->stream()));
  for (const MutableTensorView& tensor : tensors) {
    if (tensor.num_elements == 0) continue;
    RETURN_IF_ERROR(
        compute_->stream().SetZero(tensor.data, tensor.size_bytes()));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv
