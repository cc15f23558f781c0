// Alarms on a time that only tests move.

#ifndef TENSORKV_TESTS_TESTING_FAKE_ALARMS_H_
#define TENSORKV_TESTS_TESTING_FAKE_ALARMS_H_

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/mutex.h"

namespace tensorkv {

// Alarms on a time that stands still until the test moves it. Callbacks run
// on the thread that calls Advance.
class FakeAlarms final : public Alarms {
 public:
  absl::Duration Now() const override {
    MutexLock lock(&mutex_);
    return now_;
  }

  Id Schedule(absl::Duration when, Callback callback) override {
    MutexLock lock(&mutex_);
    const Id id = next_id_++;
    pending_.emplace(Key(when, id), std::move(callback));
    return id;
  }

  bool Cancel(Id id) override {
    Callback dropped;  // destroyed after the lock: it may own what calls us
    MutexLock lock(&mutex_);
    const auto alarm = std::find_if(
        pending_.begin(), pending_.end(),
        [id](const auto& entry) { return entry.first.second == id; });
    if (alarm == pending_.end()) return false;
    dropped = std::move(alarm->second);
    pending_.erase(alarm);
    return true;
  }

  // Moves the time and runs what is due, in order of time.
  void Advance(absl::Duration by) {
    mutex_.lock();
    now_ += by;
    while (!pending_.empty() && pending_.begin()->first.first <= now_) {
      auto due = pending_.extract(pending_.begin());
      mutex_.unlock();
      std::move(due.mapped())();
      due = {};
      mutex_.lock();
    }
    mutex_.unlock();
  }

  // Returns how many alarms are scheduled.
  size_t num_pending() const {
    MutexLock lock(&mutex_);
    return pending_.size();
  }

 private:
  using Key = std::pair<absl::Duration, Id>;

  mutable Mutex mutex_;
  absl::Duration now_ ABSL_GUARDED_BY(mutex_);
  Id next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<Key, Callback> pending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_TESTS_TESTING_FAKE_ALARMS_H_
