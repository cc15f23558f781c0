// Updates of many callers, in as few launches as they allow.

#ifndef TENSORKV_KERNELS_CUDA_UPDATE_BATCHER_H_
#define TENSORKV_KERNELS_CUDA_UPDATE_BATCHER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
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
// While the device has less than kMaxBatches batches, Start starts a batch at
// once, on the caller's thread; so the next one is there when one ends. Calls
// that come while it has as many are joined in one batch, which starts when
// another ends, as far as the table of their work fits in memory. Calls that
// are under way at the same time touch different tensors, so any of them may be
// joined.
//
// A caller allocates the memory that its batch needs before it queues the
// batch: starting work never waits for memory. Small tables need none on the
// device: they travel with their launches.
//
// Updates come behind the uploads that began before.
//
// An update may be in place, and rules have state: if part of a batch may have
// run and the rest has not, the content of the tensors is unknown. The device
// is marked failed then.
class UpdateBatcher {
 public:
  // The most batches that the device has at a time.
  static constexpr int kMaxBatches = 2;

  // `pool` and `uploads`, the lane of copies to the device, outlive this
  // object. Errors: those of the device.
  static absl::StatusOr<std::unique_ptr<UpdateBatcher>> Create(
      DevicePool* pool, StreamLane* uploads,
      const UpdateTableOptions& tables = {});

  // Does what Backend::ReserveForUpdates does.
  absl::Status ReserveForUpdates(absl::Span<const TensorUpdate> batch) {
    return Reserve(UpdateTable::MaxSizesOf(batch));
  }

  // Starts or queues the batch, which must stay until `done` is called: when
  // the batch is done and the callbacks of the uploads before it have returned,
  // on any thread, where `done` must not block. Calls `done` at once if the
  // batch is empty or memory cannot be had.
  //
  // REQUIRES: the batch has been checked (update_check.h).
  //
  // Errors, as the argument of `done`: ResourceExhausted (no memory for the
  // table; nothing has changed) · Unavailable (the device has failed) ·
  // Internal (nothing has changed).
  void Start(absl::Span<const TensorUpdate> batch, PlanCallback done);

  // Returns the batch that sets all bytes of `tensors` to zero. Start takes it
  // unchecked.
  static std::vector<TensorUpdate> ZerosOf(
      absl::Span<const MutableTensorView> tensors);

  BatchUsage usage() const;

  // Returns the lane of the device's computing stream.
  StreamLane& lane() { return *compute_; }

 private:
  // One call of Start.
  struct Job {
    Job(absl::Span<const TensorUpdate> batch, PlanCallback done)
        : batch(batch),
          max_sizes(UpdateTable::MaxSizesOf(batch)),
          done(std::move(done)) {}
    const absl::Span<const TensorUpdate> batch;
    const UpdateTable::Sizes max_sizes;
    const absl::Duration queued_at = SteadyNow();
    PlanCallback done;
  };
  using Jobs = std::vector<std::shared_ptr<Job>>;

  // Where tables of work are written, one for each batch, and where the device
  // reads them, one after the other.
  struct TableMemory {
    PinnedMemory host[kMaxBatches];
    DeviceMemory device;
    bool is_used[kMaxBatches] = {};

    size_t size_bytes() const { return host[0].size_bytes(); }
  };

  // Jobs that were started together.
  struct Batch {
    Jobs jobs;
    // The memory that the jobs use while they run.
    TableMemory* tables = nullptr;
    int table = 0;
    std::shared_ptr<const DeviceMemory> scratch;
    // The uploads that began before, and the launches that have been started.
    uint64_t num_uploads = 0;
    absl::Duration began_at = SteadyNow();
    int num_launches = 0;

    char* host() const { return tables->host[table].data(); }
  };

  static absl::Duration SteadyNow();

  UpdateBatcher(DevicePool* pool, StreamLane* uploads,
                const UpdateTableOptions& tables)
      : pool_(*pool), uploads_(*uploads), table_options_(tables) {}

  // Allocates memory until one batch of these sizes fits. Errors: those of the
  // device.
  absl::Status Reserve(const UpdateTable::Sizes& needed);
  absl::Status GrowTables(size_t size_bytes, size_t present_bytes);
  absl::Status GrowScratch(size_t size_bytes);
  absl::StatusOr<TableMemory> CreateTableMemory(size_t size_bytes);
  // Returns the sizes of the memory that there is.
  UpdateTable::Sizes present_sizes();

  // Starts batches of waiting jobs until the device has kMaxBatches.
  void StartPending();
  // Returns a batch of the waiting jobs that fit the memory together; null if
  // none waits or the device has kMaxBatches.
  std::shared_ptr<Batch> TakePending();
  void StartBatch(std::shared_ptr<Batch> batch);
  absl::Status Launch(const UpdateTable& table, Batch& batch, Stream& stream);

  // Ends the batch and starts waiting ones, on the lane's thread.
  void Finish(Batch& batch, absl::Status status);
  // Frees the batch's table and adds the batch to usage_.
  void Count(const Batch& batch);

  DevicePool& pool_;
  StreamLane& uploads_;
  const UpdateTableOptions table_options_;

  // Held while memory is allocated.
  Mutex growth_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);

  mutable Mutex mutex_;
  BatchUsage usage_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<Job>> pending_ ABSL_GUARDED_BY(mutex_);
  int num_running_ ABSL_GUARDED_BY(mutex_) = 0;
  // The last is used; those before stay: giving back page-locked memory would
  // stop the device.
  std::list<TableMemory> tables_ ABSL_GUARDED_BY(mutex_);
  // Serves one batch after the other; memory that was replaced is freed when
  // the batches that use it are done.
  std::shared_ptr<const DeviceMemory> scratch_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<const DeviceMemory>();

  std::unique_ptr<StreamLane> compute_;  // last: its callbacks use the rest
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_UPDATE_BATCHER_H_
