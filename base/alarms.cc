#include "base/alarms.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tensorkv {

SteadyAlarms::SteadyAlarms() : thread_([this] { Run(); }) {}

void SteadyAlarms::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.Signal();
  }
  if (thread_.joinable()) thread_.join();
}

absl::Duration SteadyAlarms::Now() const {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

Alarms::Id SteadyAlarms::Schedule(absl::Duration when, Callback callback) {
  MutexLock lock(&mutex_);
  const Id id = next_id_++;
  const auto alarm = pending_.emplace(Key(when, id), std::move(callback)).first;
  times_.emplace(id, when);
  // The thread waits for the first alarm: a later one is none of its business.
  if (alarm == pending_.begin()) changed_.Signal();
  return id;
}

bool SteadyAlarms::Cancel(Id id) {
  Callback dropped;  // destroyed after the lock: it may own what calls us
  MutexLock lock(&mutex_);
  const auto time = times_.find(id);
  if (time == times_.end()) return false;
  const auto alarm = pending_.find(Key(time->second, id));
  dropped = std::move(alarm->second);
  pending_.erase(alarm);
  times_.erase(time);
  return true;
}

void SteadyAlarms::Run() {
  // Bounds one wait, so that no conversion of a far deadline overflows.
  constexpr absl::Duration kLongestWait = absl::Hours(1);
  mutex_.lock();
  while (!stopping_) {
    const absl::Duration wait =
        pending_.empty() ? kLongestWait : pending_.begin()->first.first - Now();
    if (wait > absl::ZeroDuration()) {
      changed_.WaitWithTimeout(&mutex_, std::min(wait, kLongestWait));
      continue;
    }
    auto due = pending_.extract(pending_.begin());
    times_.erase(due.key().second);
    mutex_.unlock();
    std::move(due.mapped())();
    due = {};
    mutex_.lock();
  }
  mutex_.unlock();
}

}  // namespace tensorkv
