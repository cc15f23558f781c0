// Copies between any host memory and a device.

#ifndef TENSORKV_KERNELS_CUDA_STAGED_COPIES_H_
#define TENSORKV_KERNELS_CUDA_STAGED_COPIES_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/executor.h"
#include "kernels/cuda/completion.h"
#include "kernels/cuda/device_pool.h"
#include "kernels/cuda/pinned_slots.h"
#include "kernels/cuda/stream_lane.h"

namespace tensorkv {

struct StagedCopiesOptions {
  // Per direction, so that pushes do not hold up pulls.
  int num_slots = 16;
  // Large enough that the copy outweighs its start.
  size_t slot_bytes = 1 << 20;
};

// Copies part by part through pinned slots: while the device copies one part,
// the caller fills or empties the slot of another. Thread-safe; calls block
// until their bytes are there, and where all slots are taken until one is free.
//
// A call to the device holds a slot only while it fills it; the device's
// progress frees it. A call to the host waits for a slot only while it has
// none. So whoever has slots never waits for one, and there is always one
// coming.
class StagedCopies {
 public:
  // `pool` and `submission`, which starts all work on the streams, outlive this
  // object. Errors: those of the device.
  static absl::StatusOr<std::unique_ptr<StagedCopies>> Create(
      DevicePool* pool, Executor* submission,
      const StagedCopiesOptions& options);

  // Errors: Unavailable (the device has failed) · Internal. Part of the bytes
  // may have been copied then.
  absl::Status ToDevice(const char* host, char* device, size_t size_bytes);
  absl::Status ToHost(const char* device, char* host, size_t size_bytes);

  int num_free_slots() const {
    return slots_to_device_->num_free() + slots_to_host_->num_free();
  }

 private:
  // A slot on its way to the host.
  struct Part {
    PinnedSlot slot;
    size_t offset = 0;
    size_t size_bytes = 0;
    std::shared_ptr<Completion> copied;
  };

  StagedCopies(DevicePool* pool, Executor* submission)
      : pool_(*pool), submission_(*submission) {}

  std::shared_ptr<Completion> StartToDevice(PinnedSlot slot, char* device,
                                            size_t size_bytes);
  absl::Status EnqueueToDevice(const PinnedSlot& slot, char* device,
                               size_t size_bytes);
  std::shared_ptr<Completion> StartToHost(const char* device, char* slot,
                                          size_t size_bytes);
  absl::Status EnqueueToHost(const char* device, char* slot, size_t size_bytes);

  DevicePool& pool_;
  Executor& submission_;
  // Set by Create. The lanes' callbacks give slots back.
  std::unique_ptr<PinnedSlots> slots_to_device_;
  std::unique_ptr<PinnedSlots> slots_to_host_;
  std::unique_ptr<StreamLane> to_device_;
  std::unique_ptr<StreamLane> to_host_;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_STAGED_COPIES_H_
