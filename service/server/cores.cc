#include "service/server/cores.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace tensorkv {

int NumCores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    return std::max(CPU_COUNT(&allowed), 1);
  }
  // The machine has more than the set has room for.
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

}  // namespace tensorkv
