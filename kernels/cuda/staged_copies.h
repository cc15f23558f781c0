// Copies between any host memory and a device.

#ifndef TENSORKV_KERNELS_CUDA_STAGED_COPIES_H_
#define TENSORKV_KERNELS_CUDA_STAGED_COPIES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "kernels/backend.h"
#include "kernels/cuda/device_pool.h"
#include "kernels/cuda/pinned_arena.h"
#include "kernels/cuda/pinned_slots.h"
#include "kernels/cuda/stream_lane.h"
#include "kernels/last_of_many.h"

namespace tensorkv {

struct StagedCopiesOptions {
  // Per direction, so that pushes do not hold up pulls.
  int num_slots = 16;
  // Large enough that the copy outweighs its start; rounded up to 64.
  size_t slot_bytes = 1 << 20;
};

// Copies from and to the arena are the device's alone (pinned_copies.h). All
// others go part by part through pinned slots: while the device copies one
// part, the host fills or empties the slot of another. Small copies of one call
// share parts. Thread-safe.
//
// A call to the device waits for slots, if it needs any; it holds a slot only
// while it fills it, and the device's progress frees it. Calls to the host wait
// for no slots: they take turns at those that are free. So whoever has a slot
// never waits for one, and there is always one coming. Both may wait while
// memory for the table of small copies is allocated: for as long as it takes to
// lock the pages of a block of the arena, or to trim the pool.
//
// Copies to the host come behind those to the device that began before.
class StagedCopies {
 public:
  // `pool` and `arena` outlive this object. Errors: those of the device.
  static absl::StatusOr<std::unique_ptr<StagedCopies>> Create(
      DevicePool* pool, PinnedArena* arena, const StagedCopiesOptions& options);
  // REQUIRES: no call to the device is running, and the callbacks of all calls
  // to the host have begun. Waits for all to return.
  ~StagedCopies();

  // Starts copies, and calls `done` when they are over: on any thread, where it
  // must not block. Returns whether all were started.
  // Errors: Unavailable (the device has failed) · Internal.
  absl::Status ToDevice(absl::Span<const MemoryCopy> copies, PlanCallback done);
  void ToHost(std::vector<MemoryCopy> copies, PlanCallback done);

  // Starts copies to the device, all or none, of which nobody tells when they
  // are over, if each is a transfer. Who hears of that ends the lane's `mark`,
  // unless they are not. Errors: as above.
  absl::StatusOr<bool> StartToDevice(absl::Span<const MemoryCopy> copies,
                                     StreamLane::Mark& mark);

  StreamLane& to_device() { return *to_device_; }
  StreamLane& to_host() { return *to_host_; }

  // The slots of both directions.
  int num_slots() const { return 2 * num_slots_; }
  int num_free_slots() const {
    return slots_to_device_->num_free() + slots_to_host_->num_free();
  }

 private:
  // Threads that empty slots: copying one part must not wait for another.
  static constexpr size_t kNumEmptying = 4;

  // One call to the host, and what of it is started at once.
  struct HostCall;
  struct HostPart;

  StagedCopies(DevicePool* pool, PinnedArena* arena,
               const StagedCopiesOptions& options);

  // Takes those out of `copies` that need no slots.
  std::vector<MemoryCopy> TakePinned(std::vector<MemoryCopy>& copies,
                                     bool to_device) const;

  // Starts copies from pinned memory, maybe of a slot. The call counts them.
  absl::Status StartPinned(std::vector<MemoryCopy> copies,
                           PinnedSlots::Slot slot,
                           std::shared_ptr<LastOfMany> call);

  // Starts parts of the calls that wait, as long as there are slots.
  void StartParts();
  std::shared_ptr<HostPart> TakePart();
  // Starts the copies of a part, whose ends on the host are pinned.
  void StartToHost(std::vector<MemoryCopy> copies,
                   std::shared_ptr<HostPart> part);
  // On a thread that empties slots.
  void FinishPart(HostPart& part, const absl::Status& status);

  DevicePool& pool_;
  PinnedArena& arena_;
  const int num_slots_;
  const size_t slot_bytes_;
  // Set by Create.
  std::unique_ptr<PinnedSlots> slots_to_device_;
  std::unique_ptr<PinnedSlots> slots_to_host_;

  Mutex mutex_;
  // Calls to the host of which something has not been started.
  std::deque<std::shared_ptr<HostCall>> waiting_ ABSL_GUARDED_BY(mutex_);

  std::array<Executor, kNumEmptying> emptying_;
  std::atomic<size_t> next_emptying_ = 0;
  // Set by Create. Last: their callbacks use the rest.
  std::unique_ptr<StreamLane> to_device_;
  std::unique_ptr<StreamLane> to_host_;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_STAGED_COPIES_H_
