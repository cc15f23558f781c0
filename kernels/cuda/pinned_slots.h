// Page-locked host memory that bytes pass through on their way from and to a
// device.

#ifndef TENSORKV_KERNELS_CUDA_PINNED_SLOTS_H_
#define TENSORKV_KERNELS_CUDA_PINNED_SLOTS_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kernels/cuda/device.h"

namespace tensorkv {

// Page-locked memory, freed at the end. Move-only; may be empty.
class PinnedMemory {
 public:
  // Errors: those of Device::AllocatePinned.
  static absl::StatusOr<PinnedMemory> Create(Device* device, size_t size_bytes);

  PinnedMemory() = default;
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  // REQUIRES: the device is done with it, and still there.
  ~PinnedMemory();

  char* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  PinnedMemory(Device* device, void* data, size_t size_bytes)
      : device_(device),
        data_(static_cast<char*>(data)),
        size_bytes_(size_bytes) {}

  Device* device_ = nullptr;
  char* data_ = nullptr;
  size_t size_bytes_ = 0;
};

class PinnedSlots;

// One slot, given back at the end. Move-only; may be empty.
class PinnedSlot {
 public:
  PinnedSlot() = default;
  PinnedSlot(PinnedSlot&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), data_(other.data_) {}
  PinnedSlot& operator=(PinnedSlot&& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~PinnedSlot();

  char* data() const { return data_; }

 private:
  friend class PinnedSlots;
  PinnedSlot(PinnedSlots* owner, char* data) : owner_(owner), data_(data) {}

  PinnedSlots* owner_ = nullptr;
  char* data_ = nullptr;
};

// A fixed number of slots of one size. Thread-safe.
//
// Waiting for a slot is what holds callers back. So that it ends, a caller
// Acquires only while it has no slot whose release depends on itself; for more
// it Tries.
class PinnedSlots {
 public:
  // One piece of memory for all slots. REQUIRES: both numbers above 0.
  // Errors: those of Device::AllocatePinned.
  static absl::StatusOr<std::unique_ptr<PinnedSlots>> Create(Device* device,
                                                             int num_slots,
                                                             size_t slot_bytes);

  size_t slot_bytes() const { return slot_bytes_; }

  // Waits until there is one.
  PinnedSlot Acquire();
  // Nothing if there is none.
  std::optional<PinnedSlot> TryAcquire();

  int num_free() const;

 private:
  friend class PinnedSlot;
  PinnedSlots(PinnedMemory memory, int num_slots, size_t slot_bytes);

  PinnedSlot Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Release(char* slot);

  const PinnedMemory memory_;
  const size_t slot_bytes_;
  mutable Mutex mutex_;
  CondVar released_;
  std::vector<char*> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_PINNED_SLOTS_H_
