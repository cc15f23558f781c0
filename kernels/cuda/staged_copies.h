// Copies between any host memory and a device.

#ifndef TENSORKV_KERNELS_CUDA_STAGED_COPIES_H_
#define TENSORKV_KERNELS_CUDA_STAGED_COPIES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/answer.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "kernels/backend.h"
#include "kernels/cuda/copy_cursor.h"
#include "kernels/cuda/device_pool.h"
#include "kernels/cuda/pinned_arena.h"
#include "kernels/cuda/pinned_slots.h"
#include "kernels/cuda/staged_part.h"
#include "kernels/cuda/stream_lane.h"

namespace tensorkv {

struct StagedCopiesOptions {
  // Per direction, so that pushes do not hold up pulls.
  int num_slots = 16;
  // Large enough that the copy outweighs its start.
  size_t slot_bytes = 1 << 20;
};

// Copies from and to the arena are the device's alone, one transfer each,
// unless they are small. All others go part by part through pinned slots: while
// the device copies one part, the host fills or empties the slot of another.
// Small copies of one call share parts (staged_part.h). Thread-safe.
//
// A call to the device blocks, and waits for slots; it holds a slot only while
// it fills it, and the device's progress frees it. Calls to the host do not
// block: they take turns at the slots that are free. So whoever has a slot
// never waits for one, and there is always one coming.
class StagedCopies {
 public:
  // `pool`, `arena` and `submission`, which starts all work on the streams,
  // outlive this object. Errors: those of the device.
  static absl::StatusOr<std::unique_ptr<StagedCopies>> Create(
      DevicePool* pool, const PinnedArena* arena, Executor* submission,
      const StagedCopiesOptions& options);
  // REQUIRES: no call to the device is running, and the callbacks of all calls
  // to the host have begun. Waits for those to return.
  ~StagedCopies() = default;

  // As Backend::CopyToDevice and CopyToHost.
  // Errors: Unavailable (the device has failed) · Internal.
  absl::Status ToDevice(absl::Span<const MemoryCopy> copies);
  void ToHost(std::vector<MemoryCopy> copies, CopiedCallback done);

  StreamLane& to_device() { return *to_device_; }
  StreamLane& to_host() { return *to_host_; }

  // The slots of both directions.
  int num_slots() const { return 2 * options_.num_slots; }
  int num_free_slots() const {
    return slots_to_device_->num_free() + slots_to_host_->num_free();
  }

 private:
  // Threads that empty slots: copying one part must not wait for another.
  static constexpr size_t kNumEmptying = 4;

  using Direction = StagedPart::Direction;

  // One call to the host.
  struct HostCall;
  // A slot on its way to the host, and what its bytes are for.
  struct HostPart;

  StagedCopies(DevicePool* pool, const PinnedArena* arena, Executor* submission,
               const StagedCopiesOptions& options)
      : pool_(*pool),
        arena_(*arena),
        submission_(*submission),
        options_(options) {}

  absl::Status ClearScratch();
  StreamLane& LaneOf(Direction direction) {
    return direction == Direction::kToDevice ? *to_device_ : *to_host_;
  }
  Executor& TakeEmptying() {
    return emptying_[next_emptying_++ % kNumEmptying];
  }

  // Takes those out of `copies` that need no slots.
  std::vector<MemoryCopy> TakeDirect(std::vector<MemoryCopy>& copies,
                                     Direction direction) const;
  // Calls `done` when they are over. Nothing to copy is over at once.
  void CopyDirectly(std::vector<MemoryCopy> copies, Direction direction,
                    CopiedCallback done);
  // On the submission's thread.
  absl::Status EnqueueDirect(absl::Span<const MemoryCopy> copies,
                             Direction direction);

  std::vector<MemoryCopy> NextPieces(CopyCursor& cursor) const {
    return cursor.Next(options_.slot_bytes, StagedPart::kMaxPieces);
  }
  Answer<absl::Status> StartToDevice(PinnedSlot slot, StagedPart part);
  // On the submission's thread.
  absl::Status Enqueue(const StagedPart& part, const PinnedSlot& slot,
                       StreamLane& lane);

  void StartWithDirect(std::vector<MemoryCopy> direct,
                       const std::shared_ptr<HostCall>& call);
  // Starts what goes through slots.
  void StartRest(std::shared_ptr<HostCall> call);
  // Starts parts of the calls that wait, as long as there are slots.
  void StartParts();
  std::shared_ptr<HostPart> TakePart();
  void StartToHost(const std::shared_ptr<HostPart>& part);
  // On a thread that empties slots.
  void FinishPart(HostPart& part, absl::Status status);
  // Whether the call is done.
  bool EndPart(HostCall& call, const absl::Status& status);

  DevicePool& pool_;
  const PinnedArena& arena_;
  Executor& submission_;
  const StagedCopiesOptions options_;
  // Set by Create.
  std::unique_ptr<PinnedSlots> slots_to_device_;
  std::unique_ptr<PinnedSlots> slots_to_host_;
  DeviceMemory scratch_to_device_;
  DeviceMemory scratch_to_host_;

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
