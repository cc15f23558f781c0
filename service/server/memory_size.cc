#include "service/server/memory_size.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace tensorkv {

uint64_t MemorySizeBytes() {
  const uint64_t machine = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                           static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  // Holds "max", which is no number, where there is no limit (cgroup v2).
  uint64_t limit = 0;
  std::ifstream file("/sys/fs/cgroup/memory.max");
  return file >> limit ? std::min(machine, limit) : machine;
}

}  // namespace tensorkv
