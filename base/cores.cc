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
  std::ifstream cpu_max("/sys/fs/cgroup/cpu.max");
  return NumCores(cpu_max);
}

int NumCores(std::istream& cpu_max) {
  const int cores = NumCoresBoundTo();
  return std::max(std::min(cores, ParseCpuMax(cpu_max).value_or(cores)), 1);
}

std::optional<int> ParseCpuMax(std::istream& cpu_max) {
  int64_t time = 0;
  int64_t period = 0;
  // "max" is no number.
  if (!(cpu_max >> time >> period) || time <= 0 || period <= 0) {
    return std::nullopt;
  }
  const int64_t cores = time / period + (time % period > 0 ? 1 : 0);
  return static_cast<int>(
      std::min<int64_t>(cores, std::numeric_limits<int>::max()));
}

}  // namespace tensorkv
