// Page-locked host memory that bytes pass through on their way from and to a
// device.

#ifndef TENSORKV_KERNELS_CUDA_PINNED_SLOTS_H_
#define TENSORKV_KERNELS_CUDA_PINNED_SLOTS_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kernels/cuda/device.h"

namespace tensorkv {

// Unlocks and frees page-locked memory of a device.
struct FreePinned {
  void operator()(char* data) const;
  Device* device = nullptr;
};

// Page-locked memory, freed at the end, when the device must be done with it
// and still there. Move-only; may be empty.
class PinnedMemory {
 public:
  // Errors: those of Device::AllocatePinned.
  static absl::StatusOr<PinnedMemory> Create(Device* device, size_t size_bytes);

  PinnedMemory() = default;

  char* data() const { return data_.get(); }
  size_t size_bytes() const { return data_ ? size_bytes_ : 0; }

 private:
  PinnedMemory(Device* device, void* data, size_t size_bytes)
      : data_(static_cast<char*>(data), {device}), size_bytes_(size_bytes) {}

  std::unique_ptr<char, FreePinned> data_;
  size_t size_bytes_ = 0;
};

// A fixed number of slots of one size. Thread-safe.
//
// Acquire bounds the memory of callers by making them wait. So that the wait
// ends, a caller must not Acquire while it has a slot that is released only
// after that; it calls TryAcquire for more.
class PinnedSlots {
 public:
  // Releases a slot when its Slot is destroyed.
  struct ReleaseSlot {
    void operator()(char* slot) const { slots->Release(slot); }
    PinnedSlots* slots = nullptr;
  };
  using Slot = std::unique_ptr<char, ReleaseSlot>;

  // Allocates one piece of page-locked memory for all slots, each of
  // `slot_bytes`. REQUIRES: both numbers are above 0.
  // Errors: those of Device::AllocatePinned.
  static absl::StatusOr<std::unique_ptr<PinnedSlots>> Create(Device* device,
                                                             int num_slots,
                                                             size_t slot_bytes);

  // Blocks until a slot is free, and returns it.
  Slot Acquire();
  // Returns a free slot; null if there is none.
  Slot TryAcquire();

  int num_free() const;

 private:
  explicit PinnedSlots(PinnedMemory memory) : memory_(std::move(memory)) {}

  Slot PopFree() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Release(char* slot);

  const PinnedMemory memory_;
  mutable Mutex mutex_;
  CondVar released_;
  std::vector<char*> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_PINNED_SLOTS_H_
