#include "service/server/memory_releaser.h"

#include <algorithm>

namespace tensorkv {

MemoryReleaser::MemoryReleaser(absl::Duration window, FreeMemory* memory,
                               Alarms* alarms)
    : period_(window / kLooksPerWindow), memory_(*memory), alarms_(*alarms) {
  MutexLock lock(&mutex_);
  Schedule();
}

MemoryReleaser::~MemoryReleaser() {
  MutexLock lock(&mutex_);
  stopping_ = true;
  if (alarms_.Cancel(alarm_)) return;
  // It has started: let it end.
  while (is_scheduled_) stopped_.Wait(&mutex_);
}

void MemoryReleaser::Schedule() {
  is_scheduled_ = true;
  const absl::Duration pause = left_bytes_ > 0 ? kPause : period_;
  alarm_ = alarms_.Schedule(alarms_.Now() + pause, [this] { Look(); });
}

void MemoryReleaser::Look() {
  const size_t bytes = memory_.bytes();
  MutexLock lock(&mutex_);
  if (left_bytes_ == 0) CountLook(bytes);
  const size_t slice = std::min(left_bytes_, kSliceBytes);
  left_bytes_ -= slice;
  if (slice > 0) memory_.Release(slice);
  is_scheduled_ = false;
  if (stopping_) {
    stopped_.Signal();
  } else {
    Schedule();
  }
}

void MemoryReleaser::CountLook(size_t bytes) {
  least_bytes_ = num_looks_ == 0 ? bytes : std::min(least_bytes_, bytes);
  if (++num_looks_ < kLooksPerWindow) return;
  num_looks_ = 0;
  left_bytes_ = least_bytes_;
}

}  // namespace tensorkv
