#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <thread>

namespace tensorkv {
namespace {

int NumCoresBoundTo() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    return CPU_COUNT(&allowed);
  }
  // The machine has more than the set has room for.
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

int NumCores() {
  std::ifstream quota("/sys/fs/cgroup/cpu.max");
  return NumCores(quota);
}

int NumCores(std::istream& quota) {
  const int cores = NumCoresBoundTo();
  return std::max(std::min(cores, CoresOfQuota(quota).value_or(cores)), 1);
}

std::optional<int> CoresOfQuota(std::istream& quota) {
  int64_t time = 0;
  int64_t period = 0;
  // "max" is no number.
  if (!(quota >> time >> period) || time <= 0 || period <= 0) {
    return std::nullopt;
  }
  const int64_t cores = time / period + (time % period > 0 ? 1 : 0);
  return static_cast<int>(
      std::min<int64_t>(cores, std::numeric_limits<int>::max()));
}

}  // namespace tensorkv
