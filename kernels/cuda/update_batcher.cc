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

bool Fits(const UpdateTable::Sizes& needed, const UpdateTable::Sizes& present) {
  return needed.table_bytes <= present.table_bytes &&
         needed.scratch_bytes <= present.scratch_bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateBatcher>> UpdateBatcher::Create(
    DevicePool* pool, StreamLane* uploads, const UpdateTableOptions& tables) {
  std::unique_ptr<UpdateBatcher> batcher(
      new UpdateBatcher(pool, uploads, tables));
  RETURN_IF_ERROR(batcher->Reserve({.table_bytes = kMinTableBytes}));
  ASSIGN_OR_RETURN(batcher->compute_,
                   StreamLane::Create(&pool->device(), StreamUse::kCompute));
  return batcher;
}

void UpdateBatcher::Start(absl::Span<const TensorUpdate> batch,
                          PlanCallback done) {
  if (batch.empty()) return std::move(done)(absl::OkStatus());
  auto job = std::make_shared<Job>(batch, std::move(done));
  const absl::Status status = Reserve(job->max_sizes);
  if (!status.ok()) return std::move(job->done)(status);
  {
    MutexLock lock(&mutex_);
    pending_.push_back(std::move(job));
  }
  StartPending();
}

absl::Status UpdateBatcher::Reserve(const UpdateTable::Sizes& needed) {
  if (Fits(needed, present_sizes())) return absl::OkStatus();
  MutexLock growth_lock(&growth_mutex_);
  const UpdateTable::Sizes present = present_sizes();
  if (needed.table_bytes > present.table_bytes) {
    RETURN_IF_ERROR(GrowTables(needed.table_bytes, present.table_bytes));
  }
  if (needed.scratch_bytes <= present.scratch_bytes) return absl::OkStatus();
  return GrowScratch(needed.scratch_bytes);
}

absl::Status UpdateBatcher::GrowTables(size_t size_bytes,
                                       size_t present_bytes) {
  // Twice as much, so that it seldom grows; what is needed, if that is all
  // there is.
  absl::StatusOr<TableMemory> memory =
      CreateTableMemory(std::max(size_bytes, 2 * present_bytes));
  if (absl::IsResourceExhausted(memory.status())) {
    memory = CreateTableMemory(size_bytes);
  }
  RETURN_IF_ERROR(memory.status());
  MutexLock lock(&mutex_);
  tables_.push_back(*std::move(memory));
  return absl::OkStatus();
}

// Allocates no more than is needed: it grows with the model.
absl::Status UpdateBatcher::GrowScratch(size_t size_bytes) {
  ASSIGN_OR_RETURN(DeviceMemory memory,
                   pool_.Allocate(std::max(size_bytes, kMinScratchBytes)));
  auto scratch = std::make_shared<const DeviceMemory>(std::move(memory));
  MutexLock lock(&mutex_);
  scratch_.swap(scratch);
  return absl::OkStatus();
}

absl::StatusOr<UpdateBatcher::TableMemory> UpdateBatcher::CreateTableMemory(
    size_t size_bytes) {
  TableMemory memory;
  ASSIGN_OR_RETURN(memory.device, pool_.Allocate(size_bytes));
  for (PinnedMemory& host : memory.host) {
    ASSIGN_OR_RETURN(host, PinnedMemory::Create(&pool_.device(), size_bytes));
  }
  return memory;
}

UpdateTable::Sizes UpdateBatcher::present_sizes() {
  MutexLock lock(&mutex_);
  return {tables_.empty() ? 0 : tables_.back().size_bytes(),
          scratch_->size_bytes()};
}

void UpdateBatcher::StartPending() {
  while (std::shared_ptr<Batch> batch = TakePending()) {
    StartBatch(std::move(batch));
  }
}

// The first always fits: its caller has reserved the memory.
std::shared_ptr<UpdateBatcher::Batch> UpdateBatcher::TakePending() {
  MutexLock lock(&mutex_);
  if (pending_.empty() || num_running_ == kMaxBatches) return nullptr;
  ++num_running_;
  auto batch = std::make_shared<Batch>();
  batch->tables = &tables_.back();
  while (batch->tables->is_used[batch->table]) ++batch->table;
  batch->tables->is_used[batch->table] = true;
  batch->scratch = scratch_;
  const UpdateTable::Sizes present = {batch->tables->size_bytes(),
                                      scratch_->size_bytes()};
  UpdateTable::Sizes needed;
  while (!pending_.empty()) {
    needed.table_bytes += pending_.front()->max_sizes.table_bytes;
    needed.scratch_bytes += pending_.front()->max_sizes.scratch_bytes;
    if (!Fits(needed, present)) break;
    batch->jobs.push_back(std::move(pending_.front()));
    pending_.pop_front();
  }
  return batch;
}

void UpdateBatcher::StartBatch(std::shared_ptr<Batch> batch) {
  UpdateTable table(table_options_);
  for (const auto& job : batch->jobs) table.Add(job->batch);
  if (!table.empty()) table.Write(batch->host());
  batch->num_uploads = uploads_.num_started();
  compute_
      ->Run([&](Stream& stream) { return Launch(table, *batch, stream); },
            [this, batch](absl::Status status) {
              Finish(*batch, std::move(status));
            })
      .IgnoreError();  // the jobs are told
}

absl::Status UpdateBatcher::Launch(const UpdateTable& table, Batch& batch,
                                   Stream& stream) {
  RETURN_IF_ERROR(uploads_.OrderBehind(stream));
  if (table.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(pool_.OrderBehindAllocations(stream));
  UpdateTable::Memory memory = {.host = batch.host(),
                                .device = batch.tables->device.data(),
                                .scratch = batch.scratch->data()};
  const absl::Status status = table.CopyAndLaunch(memory, stream);
  batch.num_launches = memory.num_launches;
  return status;
}

absl::Duration UpdateBatcher::SteadyNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

void UpdateBatcher::Count(const Batch& batch) {
  const absl::Duration now = SteadyNow();
  MutexLock lock(&mutex_);
  --num_running_;
  batch.tables->is_used[batch.table] = false;
  ++usage_.num_batches;
  usage_.num_calls += batch.jobs.size();
  usage_.running += now - batch.began_at;
  for (const auto& job : batch.jobs) {
    usage_.queued += batch.began_at - job->queued_at;
  }
}

BatchUsage UpdateBatcher::usage() const {
  MutexLock lock(&mutex_);
  return usage_;
}

void UpdateBatcher::Finish(Batch& batch, absl::Status status) {
  Count(batch);
  if (!status.ok() && batch.num_launches > 0) {
    status = pool_.device().health().MarkFailed(status);
  }
  StartPending();
  uploads_.WaitForCallbacks(batch.num_uploads);
  // Last: the callers may destroy this object now.
  for (const auto& job : batch.jobs) std::move(job->done)(status);
}

std::vector<TensorUpdate> UpdateBatcher::ZerosOf(
    absl::Span<const MutableTensorView> tensors) {
  std::vector<TensorUpdate> batch;
  batch.reserve(tensors.size());
  for (const MutableTensorView& tensor : tensors) {
    batch.push_back({.rule = &UpdateRule::Assign(), .value = tensor});
  }
  return batch;
}

}  // namespace tensorkv
