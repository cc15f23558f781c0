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
// Waiting for a slot is what holds callers back. So that it ends, a caller
// Acquires only while it has no slot whose release depends on itself; for more
// it Tries.
class PinnedSlots {
 public:
  struct GiveBack {
    void operator()(char* slot) const { slots->Release(slot); }
    PinnedSlots* slots = nullptr;
  };
  using Slot = std::unique_ptr<char, GiveBack>;

  // One piece of memory for all slots. REQUIRES: both numbers above 0.
  // Errors: those of Device::AllocatePinned.
  static absl::StatusOr<std::unique_ptr<PinnedSlots>> Create(Device* device,
                                                             int num_slots,
                                                             size_t slot_bytes);

  // Waits until there is one.
  Slot Acquire();
  // Null if there is none.
  Slot TryAcquire();

  int num_free() const;

 private:
  explicit PinnedSlots(PinnedMemory memory) : memory_(std::move(memory)) {}

  Slot Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Release(char* slot);

  const PinnedMemory memory_;
  mutable Mutex mutex_;
  CondVar released_;
  std::vector<char*> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_PINNED_SLOTS_H_
