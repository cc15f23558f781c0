#include "kernels/cuda/device_pool.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

// Returns UINT64_MAX, which no quota allows, for sizes that cannot be rounded.
uint64_t TakenBy(size_t size_bytes) {
  constexpr uint64_t kMask = kAllocationGranularity - 1;
  if (size_bytes > UINT64_MAX - kMask) return UINT64_MAX;
  return (size_bytes + kMask) & ~kMask;
}

}  // namespace

void FreeOnDevice::operator()(char* data) const {
  pool->Free(data, size_bytes);
}

absl::StatusOr<std::shared_ptr<DevicePool>> DevicePool::Create(
    std::unique_ptr<Device> device, uint64_t quota_bytes) {
  std::shared_ptr<DevicePool> pool(
      new DevicePool(std::move(device), quota_bytes));
  ASSIGN_OR_RETURN(pool->stream_,
                   pool->device_->CreateStream(StreamUse::kMemory));
  ASSIGN_OR_RETURN(pool->allocated_, pool->device_->CreateEvent());
  return pool;
}

absl::StatusOr<DeviceMemory> DevicePool::Allocate(size_t size_bytes) {
  if (size_bytes == 0) return DeviceMemory();
  RETURN_IF_ERROR(Reserve(size_bytes));
  absl::StatusOr<void*> data = AllocateInOrder(size_bytes);
  // There is so much, but not in one piece, perhaps.
  if (absl::IsResourceExhausted(data.status()) &&
      device_->Trim(*stream_).ok()) {
    data = AllocateInOrder(size_bytes);
  }
  if (!data.ok()) {
    Release(size_bytes);
    return data.status();
  }
  return DeviceMemory(shared_from_this(), *data, size_bytes);
}

absl::StatusOr<void*> DevicePool::AllocateInOrder(size_t size_bytes) {
  ASSIGN_OR_RETURN(void* const data, device_->Allocate(size_bytes, *stream_));
  const absl::Status status = stream_->Record(*allocated_);
  if (status.ok()) return data;
  device_->Free(data, *stream_).IgnoreError();  // `status` says more
  return status;
}

absl::Status DevicePool::OrderBehindAllocations(Stream& stream) {
  return stream.WaitFor(*allocated_);
}

absl::Status DevicePool::Reserve(size_t size_bytes) {
  const uint64_t taken_bytes = TakenBy(size_bytes);
  MutexLock lock(&mutex_);
  if (taken_bytes <= quota_bytes_ - used_bytes_) {
    used_bytes_ += taken_bytes;
    num_idle_looks_ = 0;
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(device_->name(), " memory: expected at most ",
                   quota_bytes_ - used_bytes_, " bytes (", used_bytes_, " of ",
                   quota_bytes_, " are in use), got ", taken_bytes));
}

void DevicePool::Release(size_t size_bytes) {
  MutexLock lock(&mutex_);
  used_bytes_ -= TakenBy(size_bytes);
  has_freed_ = true;
  num_idle_looks_ = 0;
}

void DevicePool::TrimIfIdle() {
  {
    MutexLock lock(&mutex_);
    if (!has_freed_ || num_idle_looks_++ < kIdleLooks) return;
    has_freed_ = false;
  }
  device_->Trim(*stream_).IgnoreError();  // what is kept is there later
}

void DevicePool::OrderFreesBehind(StreamLane* uploads) {
  MutexLock lock(&uploads_mutex_);
  uploads_ = uploads;
}

void DevicePool::Free(void* data, size_t size_bytes) {
  // A device that has failed frees nothing, and nobody could be told.
  {
    MutexLock lock(&uploads_mutex_);
    if (uploads_ != nullptr) uploads_->OrderBehind(*stream_).IgnoreError();
  }
  device_->Free(data, *stream_).IgnoreError();
  Release(size_bytes);
}

uint64_t DevicePool::used_bytes() const {
  MutexLock lock(&mutex_);
  return used_bytes_;
}

}  // namespace tensorkv
