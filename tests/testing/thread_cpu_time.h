// What a thread computes, whatever else the machine does.

#ifndef TENSORKV_TESTS_TESTING_THREAD_CPU_TIME_H_
#define TENSORKV_TESTS_TESTING_THREAD_CPU_TIME_H_

#include <ctime>

#include "absl/time/time.h"

namespace tensorkv::testing {

// What this thread has had of a core.
inline absl::Duration ThreadCpuTime() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_THREAD_CPU_TIME_H_
