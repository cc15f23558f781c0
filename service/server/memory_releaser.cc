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
  alarm_ = alarms_.Schedule(alarms_.Now() + period_, [this] { Look(); });
}

void MemoryReleaser::Look() {
  const size_t bytes = memory_.bytes();
  MutexLock lock(&mutex_);
  least_bytes_ = num_looks_ == 0 ? bytes : std::min(least_bytes_, bytes);
  if (++num_looks_ == kLooksPerWindow) {
    num_looks_ = 0;
    if (least_bytes_ > 0) memory_.Release(least_bytes_);
  }
  is_scheduled_ = false;
  if (stopping_) {
    stopped_.Signal();
  } else {
    Schedule();
  }
}

}  // namespace tensorkv
