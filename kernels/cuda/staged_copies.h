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
  // The slots of each direction, so that pushes do not hold up pulls.
  int num_slots = 16;
  // Large enough that the copy outweighs its start; rounded up to a multiple of
  // 64.
  size_t slot_bytes = 1 << 20;
};

// Copies from and to the arena are done by the device alone (pinned_copies.h).
// All others go part by part through pinned slots: while the device copies one
// part, the host fills or empties the slot of another. Small copies of one call
// share parts. Thread-safe.
//
// ToDevice blocks until it has slots, if it needs any, and until it has filled
// them; the device's progress frees them. ToHost blocks for no slot: its parts
// start as slots become free. So no thread waits for a slot while it has one,
// and one always becomes free. Both may block while memory for the table of
// small copies is allocated: for as long as it takes to lock the pages of a
// block of the arena, or to trim the pool.
//
// On the device, copies to the host come behind those to the device that began
// before.
class StagedCopies {
 public:
  // `pool` and `arena` outlive this object. Errors: those of the device.
  static absl::StatusOr<std::unique_ptr<StagedCopies>> Create(
      DevicePool* pool, PinnedArena* arena, const StagedCopiesOptions& options);
  // Blocks until all callbacks have returned. REQUIRES: no call of ToDevice is
  // running, and the callbacks of all calls of ToHost have begun.
  ~StagedCopies();

  // Starts copies, and calls `done` when all are over: on any thread, where it
  // must not block. ToDevice returns OK if all copies have been started; the
  // host's memory must stay until `done`. Else those that have been started
  // come to their end before `done` is called with the error.
  //
  // Errors: Unavailable (the device has failed) · Internal.
  absl::Status ToDevice(absl::Span<const MemoryCopy> copies, PlanCallback done);
  void ToHost(std::vector<MemoryCopy> copies, PlanCallback done);

  // Enqueues the copies if each is one transfer from memory that the device can
  // read, and returns true; else returns false and does nothing. No callback
  // tells when the transfers are over: the caller, who learns it from work that
  // is ordered behind them, must then call to_device().EndEnqueued(mark), also
  // after an error, but not after false.
  // Errors: Unavailable · Internal; some transfers may have been enqueued then.
  absl::StatusOr<bool> EnqueueToDevice(absl::Span<const MemoryCopy> copies,
                                       StreamLane::Mark& mark);

  StreamLane& to_device() { return *to_device_; }
  StreamLane& to_host() { return *to_host_; }

  // Returns the numbers of slots of both directions together.
  int num_slots() const { return 2 * num_slots_; }
  int num_free_slots() const {
    return slots_to_device_->num_free() + slots_to_host_->num_free();
  }

 private:
  // The number of threads that empty slots: copying one part must not wait for
  // another.
  static constexpr size_t kNumEmptying = 4;

  // A call of ToHost, and one of its parts.
  struct HostCall;
  struct HostPart;

  StagedCopies(DevicePool* pool, PinnedArena* arena,
               const StagedCopiesOptions& options);

  // Removes the copies that need no slots from `copies` and returns them.
  std::vector<MemoryCopy> ExtractPinned(std::vector<MemoryCopy>& copies,
                                        bool to_device) const;

  // Starts copies to the device from pinned memory, of `slot` or of the arena,
  // as one more piece of `call`.
  absl::Status StartPinned(std::vector<MemoryCopy> copies,
                           PinnedSlots::Slot slot,
                           std::shared_ptr<LastOfMany> call);

  // Starts parts of the waiting calls of ToHost, as long as there are slots.
  void StartParts();
  // Returns the next part, with a slot; null if none waits or no slot is free.
  std::shared_ptr<HostPart> NextPart();
  // Starts the copies of a part, whose ends on the host are pinned.
  void StartToHost(std::vector<MemoryCopy> copies,
                   std::shared_ptr<HostPart> part);
  // Empties the part's slot and ends its piece of the call, on a thread that
  // empties slots.
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
