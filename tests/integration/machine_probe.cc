#include "tests/integration/machine_probe.h"

#include "client/internal/steady_now.h"
#include "tests/testing/thread_cpu_time.h"

namespace tensorkv::testing {
namespace {

// Longer than a turn of the scheduler's: a shorter burst would be over before
// others have theirs.
constexpr absl::Duration kBurst = absl::Milliseconds(20);
// A tenth of a core is the probe's.
constexpr absl::Duration kPause = absl::Milliseconds(200);

}  // namespace

MachineProbe::MachineProbe() : thread_([this] { Run(); }) {}

MachineProbe::~MachineProbe() {
  {
    MutexLock lock(&mutex_);
    is_stopped_ = true;
    stopped_.SignalAll();
  }
  thread_.join();
}

double MachineProbe::SlowdownBetween(absl::Duration begin,
                                     absl::Duration end) const {
  absl::Duration wall;
  absl::Duration cpu;
  MutexLock lock(&mutex_);
  for (const Burst& burst : bursts_) {
    if (burst.end < begin || burst.begin > end) continue;
    wall += burst.end - burst.begin;
    cpu += burst.cpu;
  }
  return cpu > absl::ZeroDuration() && wall > cpu
             ? absl::FDivDuration(wall, cpu)
             : 1;
}

void MachineProbe::Run() {
  do {
    Burst burst = {.begin = SteadyNow()};
    const absl::Duration start = ThreadCpuTime();
    while (burst.cpu < kBurst) burst.cpu = ThreadCpuTime() - start;
    burst.end = SteadyNow();
    MutexLock lock(&mutex_);
    bursts_.push_back(burst);
  } while (!Sleep());
}

bool MachineProbe::Sleep() {
  MutexLock lock(&mutex_);
  if (!is_stopped_) stopped_.WaitWithTimeout(&mutex_, kPause);
  return is_stopped_;
}

}  // namespace tensorkv::testing
