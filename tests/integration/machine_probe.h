// How much of a machine is left for a test.

#ifndef TENSORKV_TESTS_INTEGRATION_MACHINE_PROBE_H_
#define TENSORKV_TESTS_INTEGRATION_MACHINE_PROBE_H_

#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace tensorkv::testing {

// Works for a moment again and again, and sees how long that takes, so that a
// bound of time can be that of a machine which does nothing else. Thread-safe.
class MachineProbe {
 public:
  MachineProbe();
  ~MachineProbe();

  // The slowdown: how many times longer than alone work took on average between
  // two moments of SteadyNow(). Counts whole bursts of computing that overlap
  // the time; 1 where there are none. It sees the cores alone, no disk or
  // memory.
  double SlowdownBetween(absl::Duration begin, absl::Duration end) const;

 private:
  // Work that took `cpu` of a core, and was under way from `begin` to `end`.
  struct Burst {
    absl::Duration begin;
    absl::Duration end;
    absl::Duration cpu;
  };

  void Run();
  // Until the next burst; whether there is none.
  bool Sleep();

  mutable Mutex mutex_;
  CondVar stopped_;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  // In order of time.
  std::vector<Burst> bursts_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_INTEGRATION_MACHINE_PROBE_H_
