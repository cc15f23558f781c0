// Updates of many callers, in as few launches as they allow.

#ifndef TENSORKV_KERNELS_CUDA_UPDATE_BATCHER_H_
#define TENSORKV_KERNELS_CUDA_UPDATE_BATCHER_H_

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/answer.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "kernels/backend.h"
#include "kernels/cuda/device_pool.h"
#include "kernels/cuda/pinned_slots.h"
#include "kernels/cuda/stream_lane.h"
#include "kernels/cuda/update_table.h"
#include "kernels/device_usage.h"

namespace tensorkv {

// Runs updates on one device. Thread-safe.
//
// What comes while the device is busy goes out together as soon as it is not,
// as far as there is room for the table of its work; an idle device starts at
// once. As a caller waits for its batch, the batches that are joined are of
// different callers, and touch different tensors.
//
// Callers make the room that their batches need before they queue up: whoever
// submits work never waits for memory.
//
// An update may be in place, and rules have state: if part of a batch may have
// been run and the rest was not, nobody knows what the tensors hold. The device
// counts as failed then.
class UpdateBatcher {
 public:
  // `pool` and `submission`, which starts all work, outlive this object.
  // Errors: those of the device.
  static absl::StatusOr<std::unique_ptr<UpdateBatcher>> Create(
      DevicePool* pool, Executor* submission);

  // As Backend::Prepare.
  absl::Status Prepare(absl::Span<const TensorUpdate> batch) {
    return MakeRoom(UpdateTable::MaxRoomOf(batch));
  }

  // Returns when the batch is done.
  // REQUIRES: it has been checked (update_check.h).
  // Errors: ResourceExhausted (no memory for the table; nothing has changed) ·
  // Unavailable (the device has failed) · Internal (nothing has changed).
  absl::Status Apply(absl::Span<const TensorUpdate> batch);

  // Sets bytes to zero, as a batch like any other. Errors: as Apply.
  absl::Status Zero(absl::Span<const MutableTensorView> tensors);

  // Batches that wait for the device to end another.
  size_t num_waiting();

  BatchUsage usage() const;

  StreamLane& lane() { return *compute_; }

 private:
  struct Job {
    explicit Job(absl::Span<const TensorUpdate> batch)
        : batch(batch), max_room(UpdateTable::MaxRoomOf(batch)) {}
    // The caller keeps it, and waits.
    const absl::Span<const TensorUpdate> batch;
    const UpdateTable::Room max_room;
    const absl::Duration queued_at = SteadyNow();
    const Answer<absl::Status> done;
  };
  using Jobs = std::vector<std::shared_ptr<Job>>;

  // Where a table of work is written, and where the device reads it.
  struct TableMemory {
    PinnedMemory host;
    DeviceMemory device;

    size_t size_bytes() const { return host.size_bytes(); }
  };

  // What a batch uses while it runs.
  struct BatchMemory {
    const TableMemory* table = nullptr;
    std::shared_ptr<const DeviceMemory> scratch;
  };

  // When the batch was started, and how far that got.
  struct Start {
    absl::Duration began_at = SteadyNow();
    absl::Status status;
    int num_launches = 0;
  };

  static absl::Duration SteadyNow();

  UpdateBatcher(DevicePool* pool, Executor* submission)
      : pool_(*pool), submission_(*submission) {}

  absl::Status MakeRoom(const UpdateTable::Room& needed);
  absl::Status MakeTableRoom(size_t size_bytes, size_t present_bytes);
  absl::Status MakeScratchRoom(size_t size_bytes);
  absl::StatusOr<TableMemory> CreateTable(size_t size_bytes);
  UpdateTable::Room room();

  // These run on the submission's thread.
  void StartNext();
  // What fits `memory` together, which is set.
  Jobs TakePending(BatchMemory& memory);
  Start StartOf(const UpdateTable& table, const BatchMemory& memory);
  absl::Status Upload(const UpdateTable& table, const TableMemory& memory);

  // On the lane's.
  void Finish(const Jobs& jobs, const Start& start, const absl::Status& done);
  void Count(const Jobs& jobs, const Start& start);

  DevicePool& pool_;
  Executor& submission_;

  // Held while memory is allocated.
  Mutex growth_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);

  mutable Mutex mutex_;
  BatchUsage usage_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<Job>> pending_ ABSL_GUARDED_BY(mutex_);
  // From the first job on until StartNext finds none.
  bool is_busy_ ABSL_GUARDED_BY(mutex_) = false;
  // For the batch that runs, of which there is one at most. The last is used;
  // those before stay: giving back page-locked memory would stop the device.
  std::list<TableMemory> tables_ ABSL_GUARDED_BY(mutex_);
  // Serves the batch that runs, too; memory that was replaced is freed when the
  // batches that use it are done.
  std::shared_ptr<const DeviceMemory> scratch_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<const DeviceMemory>();

  std::unique_ptr<StreamLane> compute_;  // last: its callbacks use the rest
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_UPDATE_BATCHER_H_
