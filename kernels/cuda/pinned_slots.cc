#include "kernels/cuda/pinned_slots.h"

#include "base/status_macros.h"

namespace tensorkv {

absl::StatusOr<PinnedMemory> PinnedMemory::Create(Device* device,
                                                  size_t size_bytes) {
  ASSIGN_OR_RETURN(void* const data, device->AllocatePinned(size_bytes));
  return PinnedMemory(device, data, size_bytes);
}

// Nobody is left who could be told.
void FreePinned::operator()(char* data) const {
  device->FreePinned(data).IgnoreError();
}

absl::StatusOr<std::unique_ptr<PinnedSlots>> PinnedSlots::Create(
    Device* device, int num_slots, size_t slot_bytes) {
  ASSIGN_OR_RETURN(PinnedMemory memory,
                   PinnedMemory::Create(device, num_slots * slot_bytes));
  std::unique_ptr<PinnedSlots> slots(new PinnedSlots(std::move(memory)));
  for (int i = 0; i < num_slots; ++i) {
    slots->Release(slots->memory_.data() + i * slot_bytes);
  }
  return slots;
}

PinnedSlots::Slot PinnedSlots::Acquire() {
  MutexLock lock(&mutex_);
  while (free_.empty()) released_.Wait(&mutex_);
  return PopFree();
}

PinnedSlots::Slot PinnedSlots::TryAcquire() {
  MutexLock lock(&mutex_);
  return free_.empty() ? Slot() : PopFree();
}

PinnedSlots::Slot PinnedSlots::PopFree() {
  Slot slot(free_.back(), {this});
  free_.pop_back();
  return slot;
}

void PinnedSlots::Release(char* slot) {
  MutexLock lock(&mutex_);
  free_.push_back(slot);
  released_.Signal();
}

int PinnedSlots::num_free() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(free_.size());
}

}  // namespace tensorkv
