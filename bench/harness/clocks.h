// Clocks of the machine and of its processes.

#ifndef TENSORKV_BENCH_HARNESS_CLOCKS_H_
#define TENSORKV_BENCH_HARNESS_CLOCKS_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/time/time.h"

namespace tensorkv::bench {

// Returns the time since some moment in the past; it is never set back.
absl::Duration SteadyTime();

// Returns the CPU time that all threads of a process have taken so far, those
// that ended included; zero if there is no such process. 0 is this process.
absl::Duration CpuTimeOf(pid_t process);

// Returns the physical memory that a process has; 0 if there is no such
// process.
int64_t ResidentBytesOf(pid_t process);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_CLOCKS_H_
