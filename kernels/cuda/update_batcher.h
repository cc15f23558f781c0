// Updates of many callers, in as few launches as they allow.

#ifndef TENSORKV_KERNELS_CUDA_UPDATE_BATCHER_H_
#define TENSORKV_KERNELS_CUDA_UPDATE_BATCHER_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "kernels/backend.h"
#include "kernels/cuda/completion.h"
#include "kernels/cuda/device_pool.h"
#include "kernels/cuda/pinned_slots.h"
#include "kernels/cuda/stream_lane.h"
#include "kernels/cuda/update_table.h"

namespace tensorkv {

// Runs updates on one device. Thread-safe.
//
// What comes while the device is busy goes out together as soon as it is not;
// an idle device starts at once. As a caller waits for its batch, the batches
// that are joined are of different callers, and touch different tensors.
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

  // Returns when the batch is done.
  // REQUIRES: it has been checked (update_check.h).
  // Errors: ResourceExhausted (no memory for the table; nothing has changed) ·
  // Unavailable (the device has failed) · Internal (nothing has changed).
  absl::Status Apply(absl::Span<const TensorUpdate> batch);

  // Sets bytes to zero, in order with the updates. Errors: as Apply.
  absl::Status Zero(absl::Span<const MutableTensorView> tensors);

  // Batches that wait for the device to end another.
  size_t num_waiting();

 private:
  struct Job {
    explicit Job(absl::Span<const TensorUpdate> batch) : batch(batch) {}
    // Of the caller, who waits.
    const absl::Span<const TensorUpdate> batch;
    Completion done;
  };
  using Jobs = std::vector<std::shared_ptr<Job>>;

  // How far the start of a batch got.
  struct Start {
    absl::Status status;
    int num_launches = 0;
  };

  UpdateBatcher(DevicePool* pool, Executor* submission)
      : pool_(*pool), submission_(*submission) {}

  // These run on the submission's thread.
  void StartNext();
  Jobs TakePending();
  Start StartOf(const UpdateTable& table);
  absl::Status Upload(const UpdateTable& table);
  absl::Status MakeRoomForTable(size_t size_bytes);
  absl::Status EnqueueZeros(absl::Span<const MutableTensorView> tensors);

  // On the lane's.
  void Finish(const Jobs& jobs, const Start& start, const absl::Status& done);

  DevicePool& pool_;
  Executor& submission_;

  Mutex mutex_;
  Jobs pending_ ABSL_GUARDED_BY(mutex_);
  // From the first job on until StartNext finds none.
  bool is_busy_ ABSL_GUARDED_BY(mutex_) = false;

  // Of the batch that runs; there is one at most.
  PinnedMemory host_table_;
  DeviceMemory device_table_;

  std::unique_ptr<StreamLane> compute_;  // last: its callbacks use the rest
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_UPDATE_BATCHER_H_
