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
// A device that has less than kMaxBatches to do starts a batch at once, on the
// caller's thread; so the next is there when one ends. What comes while it has
// as many goes out together as soon as it has not, as far as there is room for
// the table of its work. Batches that were not waited for touch different
// tensors, so any of them may be joined.
//
// Callers make the room that their batches need before they queue up: whoever
// starts work never waits for memory. Small tables need none on the device:
// they travel with their launches.
//
// Updates come behind the uploads that began before.
//
// An update may be in place, and rules have state: if part of a batch may have
// been run and the rest was not, nobody knows what the tensors hold. The device
// counts as failed then.
class UpdateBatcher {
 public:
  // How many batches the device has at most.
  static constexpr int kMaxBatches = 2;

  // `pool` and `uploads`, the lane of copies to the device, outlive this
  // object. Errors: those of the device.
  static absl::StatusOr<std::unique_ptr<UpdateBatcher>> Create(
      DevicePool* pool, StreamLane* uploads,
      const UpdateTableOptions& tables = {});

  // As Backend::ReserveForUpdates.
  absl::Status ReserveForUpdates(absl::Span<const TensorUpdate> batch) {
    return MakeRoom(UpdateTable::MaxRoomOf(batch));
  }

  // Starts the batch, which must stay until `done` is called, when it is done
  // and the callbacks of the uploads before it have returned: on any thread,
  // where it must not block.
  // REQUIRES: it has been checked (update_check.h).
  // Errors, as the argument of `done`: ResourceExhausted (no memory for the
  // table; nothing has changed) · Unavailable (the device has failed) ·
  // Internal (nothing has changed).
  void Start(absl::Span<const TensorUpdate> batch, PlanCallback done);

  // The batch that sets bytes to zero.
  static std::vector<TensorUpdate> ZerosOf(
      absl::Span<const MutableTensorView> tensors);

  // Batches that wait for the device to end others.
  size_t num_waiting();

  BatchUsage usage() const;

  StreamLane& lane() { return *compute_; }

 private:
  struct Job {
    Job(absl::Span<const TensorUpdate> batch, PlanCallback done)
        : batch(batch),
          max_room(UpdateTable::MaxRoomOf(batch)),
          done(std::move(done)) {}
    const absl::Span<const TensorUpdate> batch;
    const UpdateTable::Room max_room;
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
    // What they use while they run.
    TableMemory* tables = nullptr;
    int table = 0;
    std::shared_ptr<const DeviceMemory> scratch;
    // How many uploads began before, and how far the start got.
    uint64_t num_uploads = 0;
    absl::Duration began_at = SteadyNow();
    int num_launches = 0;

    char* host() const { return tables->host[table].data(); }
  };

  static absl::Duration SteadyNow();

  UpdateBatcher(DevicePool* pool, StreamLane* uploads,
                const UpdateTableOptions& tables)
      : pool_(*pool), uploads_(*uploads), table_options_(tables) {}

  absl::Status MakeRoom(const UpdateTable::Room& needed);
  absl::Status MakeTableRoom(size_t size_bytes, size_t present_bytes);
  absl::Status MakeScratchRoom(size_t size_bytes);
  absl::StatusOr<TableMemory> CreateTable(size_t size_bytes);
  UpdateTable::Room room();

  // Starts what waits, as long as the device has not enough.
  void StartPending();
  // What fits the memory together; null if nothing is to be started.
  std::shared_ptr<Batch> TakePending();
  void Start(std::shared_ptr<Batch> batch);
  absl::Status Launch(const UpdateTable& table, Batch& batch, Stream& stream);

  // On the lane's thread.
  void Finish(Batch& batch, absl::Status status);
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
