// Deadlines: run something at a time, unless it is cancelled first.

#ifndef TENSORKV_BASE_ALARMS_H_
#define TENSORKV_BASE_ALARMS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace tensorkv {

// A clock with alarms. Thread-safe.
//
// Time is monotonic: it counts from an arbitrary start and never jumps when
// somebody sets the wall clock.
class Alarms {
 public:
  using Id = uint64_t;
  using Callback = absl::AnyInvocable<void() &&>;

  virtual ~Alarms() = default;

  // Returns the time since an arbitrary start.
  virtual absl::Duration Now() const = 0;

  // Has `callback` run once Now() has reached `when`, a time as Now() tells it,
  // on no thread that the caller blocks. The callback must not block; it may
  // call Schedule and Cancel. Returns the id by which Cancel knows the alarm.
  virtual Id Schedule(absl::Duration when, Callback callback) = 0;

  // Drops an alarm. Returns false, without waiting, if its callback has started
  // or has run.
  virtual bool Cancel(Id id) = 0;
};

// Alarms on the steady clock, served by one thread.
class SteadyAlarms final : public Alarms {
 public:
  SteadyAlarms();
  ~SteadyAlarms() override { Stop(); }

  // Waits for a callback under way, and runs no other one from then on, not
  // even one that is due. REQUIRES: not called by a callback.
  void Stop();

  absl::Duration Now() const override;
  Id Schedule(absl::Duration when, Callback callback) override;
  bool Cancel(Id id) override;

 private:
  using Key = std::pair<absl::Duration, Id>;

  void Run();

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Id next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<Key, Callback> pending_ ABSL_GUARDED_BY(mutex_);
  std::map<Id, absl::Duration> times_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace tensorkv

#endif  // TENSORKV_BASE_ALARMS_H_
