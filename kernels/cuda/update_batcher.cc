#include "kernels/cuda/update_batcher.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/status_macros.h"

namespace tensorkv {
namespace {

// A few hundred updates.
constexpr size_t kMinTableBytes = 64 << 10;
// Some small updates whose rules need sums fit together.
constexpr size_t kMinScratchBytes = 16 << 10;

bool Fits(const UpdateTable::Room& needed, const UpdateTable::Room& room) {
  return needed.table_bytes <= room.table_bytes &&
         needed.scratch_bytes <= room.scratch_bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateBatcher>> UpdateBatcher::Create(
    DevicePool* pool, Executor* submission) {
  std::unique_ptr<UpdateBatcher> batcher(new UpdateBatcher(pool, submission));
  RETURN_IF_ERROR(batcher->MakeRoom({.table_bytes = kMinTableBytes}));
  ASSIGN_OR_RETURN(batcher->compute_,
                   StreamLane::Create(&pool->device(), StreamUse::kCompute));
  return batcher;
}

absl::Status UpdateBatcher::Apply(absl::Span<const TensorUpdate> batch) {
  if (batch.empty()) return absl::OkStatus();
  const auto job = std::make_shared<Job>(batch);
  RETURN_IF_ERROR(MakeRoom(job->max_room));
  bool is_first;
  {
    MutexLock lock(&mutex_);
    pending_.push_back(job);
    is_first = !std::exchange(is_busy_, true);
  }
  if (is_first) submission_.Submit([this] { StartNext(); });
  return job->done.Wait();
}

absl::Status UpdateBatcher::MakeRoom(const UpdateTable::Room& needed) {
  if (Fits(needed, room())) return absl::OkStatus();
  MutexLock growth_lock(&growth_mutex_);
  const UpdateTable::Room present = room();
  if (needed.table_bytes > present.table_bytes) {
    RETURN_IF_ERROR(MakeTableRoom(needed.table_bytes, present.table_bytes));
  }
  if (needed.scratch_bytes <= present.scratch_bytes) return absl::OkStatus();
  return MakeScratchRoom(needed.scratch_bytes);
}

absl::Status UpdateBatcher::MakeTableRoom(size_t size_bytes,
                                          size_t present_bytes) {
  // Twice as much, so that it seldom grows; what is needed, if that is all
  // there is.
  absl::StatusOr<TableMemory> memory =
      CreateTable(std::max(size_bytes, 2 * present_bytes));
  if (absl::IsResourceExhausted(memory.status())) {
    memory = CreateTable(size_bytes);
  }
  RETURN_IF_ERROR(memory.status());
  MutexLock lock(&mutex_);
  tables_.push_back(*std::move(memory));
  return absl::OkStatus();
}

// No more than is needed: it grows with the model.
absl::Status UpdateBatcher::MakeScratchRoom(size_t size_bytes) {
  ASSIGN_OR_RETURN(DeviceMemory memory,
                   pool_.Allocate(std::max(size_bytes, kMinScratchBytes)));
  auto scratch = std::make_shared<const DeviceMemory>(std::move(memory));
  MutexLock lock(&mutex_);
  scratch_.swap(scratch);
  return absl::OkStatus();
}

absl::StatusOr<UpdateBatcher::TableMemory> UpdateBatcher::CreateTable(
    size_t size_bytes) {
  TableMemory memory;
  ASSIGN_OR_RETURN(memory.device, pool_.Allocate(size_bytes));
  ASSIGN_OR_RETURN(memory.host,
                   PinnedMemory::Create(&pool_.device(), size_bytes));
  return memory;
}

UpdateTable::Room UpdateBatcher::room() {
  MutexLock lock(&mutex_);
  return {tables_.empty() ? 0 : tables_.back().size_bytes(),
          scratch_->size_bytes()};
}

void UpdateBatcher::StartNext() {
  BatchMemory memory;
  Jobs jobs = TakePending(memory);
  if (jobs.empty()) return;
  UpdateTable table;
  for (const auto& job : jobs) table.Add(job->batch);
  Start start = StartOf(table, memory);
  compute_->WhenDone([this, jobs = std::move(jobs), start = std::move(start),
                      memory = std::move(memory)](const absl::Status& done) {
    Finish(jobs, start, done);
  });
}

// The first always fits: its caller has made the room.
UpdateBatcher::Jobs UpdateBatcher::TakePending(BatchMemory& memory) {
  MutexLock lock(&mutex_);
  memory = {&tables_.back(), scratch_};
  const UpdateTable::Room present = {tables_.back().size_bytes(),
                                     scratch_->size_bytes()};
  Jobs jobs;
  UpdateTable::Room needed;
  while (!pending_.empty()) {
    needed.table_bytes += pending_.front()->max_room.table_bytes;
    needed.scratch_bytes += pending_.front()->max_room.scratch_bytes;
    if (!Fits(needed, present)) break;
    jobs.push_back(std::move(pending_.front()));
    pending_.pop_front();
  }
  is_busy_ = !jobs.empty();
  return jobs;
}

UpdateBatcher::Start UpdateBatcher::StartOf(const UpdateTable& table,
                                            const BatchMemory& memory) {
  Start start;
  if (table.empty()) return start;
  start.status = Upload(table, *memory.table);
  if (!start.status.ok()) return start;
  for (const UpdateLaunch& launch :
       table.LaunchesAt(memory.table->device.data(), memory.scratch->data())) {
    start.status = compute_->stream().Launch(launch);
    if (!start.status.ok()) return start;
    ++start.num_launches;
  }
  return start;
}

absl::Status UpdateBatcher::Upload(const UpdateTable& table,
                                   const TableMemory& memory) {
  table.Write(memory.host.data());
  RETURN_IF_ERROR(pool_.OrderBehindAllocations(compute_->stream()));
  return compute_->stream().CopyToDevice(
      memory.device.data(), memory.host.data(), table.size_bytes());
}

absl::Duration UpdateBatcher::SteadyNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

void UpdateBatcher::Count(const Jobs& jobs, const Start& start) {
  const absl::Duration now = SteadyNow();
  MutexLock lock(&mutex_);
  ++usage_.num_batches;
  usage_.num_calls += jobs.size();
  usage_.running += now - start.began_at;
  for (const auto& job : jobs) {
    usage_.queued += start.began_at - job->queued_at;
  }
}

BatchUsage UpdateBatcher::usage() const {
  MutexLock lock(&mutex_);
  return usage_;
}

void UpdateBatcher::Finish(const Jobs& jobs, const Start& start,
                           const absl::Status& done) {
  Count(jobs, start);
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
  static const UpdateRule* const kAssign = new UpdateRule();
  std::vector<TensorUpdate> batch;
  batch.reserve(tensors.size());
  for (const MutableTensorView& tensor : tensors) {
    batch.push_back({.rule = kAssign, .value = tensor});
  }
  return Apply(batch);
}

}  // namespace tensorkv
