#include "bench/harness/clocks.h"

#include <time.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"

namespace tensorkv::bench {
namespace {

absl::Duration Read(clockid_t clock) {
  timespec time;
  if (clock_gettime(clock, &time) != 0) return absl::ZeroDuration();
  return absl::DurationFromTimespec(time);
}

}  // namespace

absl::Duration SteadyTime() { return Read(CLOCK_MONOTONIC); }

absl::Duration CpuTimeOf(pid_t process) {
  clockid_t clock;
  if (clock_getcpuclockid(process, &clock) != 0) return absl::ZeroDuration();
  return Read(clock);
}

int64_t ResidentBytesOf(pid_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/statm"));
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  if (!(file >> total_pages >> resident_pages)) return 0;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

}  // namespace tensorkv::bench
