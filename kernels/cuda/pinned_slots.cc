#include "kernels/cuda/pinned_slots.h"

#include "base/status_macros.h"

namespace tensorkv {

absl::StatusOr<PinnedMemory> PinnedMemory::Create(Device* device,
                                                  size_t size_bytes) {
  ASSIGN_OR_RETURN(void* const data, device->AllocatePinned(size_bytes));
  return PinnedMemory(device, data, size_bytes);
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : device_(other.device_),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

PinnedMemory::~PinnedMemory() {
  if (data_ == nullptr) return;
  // Nobody is left who could be told.
  device_->FreePinned(data_).IgnoreError();
}

PinnedSlot::~PinnedSlot() {
  if (owner_ != nullptr) owner_->Release(data_);
}

absl::StatusOr<std::unique_ptr<PinnedSlots>> PinnedSlots::Create(
    Device* device, int num_slots, size_t slot_bytes) {
  ASSIGN_OR_RETURN(PinnedMemory memory,
                   PinnedMemory::Create(device, num_slots * slot_bytes));
  return std::unique_ptr<PinnedSlots>(
      new PinnedSlots(std::move(memory), num_slots, slot_bytes));
}

PinnedSlots::PinnedSlots(PinnedMemory memory, int num_slots, size_t slot_bytes)
    : memory_(std::move(memory)), slot_bytes_(slot_bytes) {
  for (int i = 0; i < num_slots; ++i) {
    free_.push_back(memory_.data() + i * slot_bytes);
  }
}

PinnedSlot PinnedSlots::Acquire() {
  MutexLock lock(&mutex_);
  while (free_.empty()) released_.Wait(&mutex_);
  return Take();
}

std::optional<PinnedSlot> PinnedSlots::TryAcquire() {
  MutexLock lock(&mutex_);
  if (free_.empty()) return std::nullopt;
  return Take();
}

PinnedSlot PinnedSlots::Take() {
  char* const slot = free_.back();
  free_.pop_back();
  return PinnedSlot(this, slot);
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
