// The number of threads that can run at once.

#ifndef TENSORKV_BASE_CORES_H_
#define TENSORKV_BASE_CORES_H_

#include <istream>
#include <optional>

namespace tensorkv {

// Returns the number of cores that the calling thread, and those that it
// starts, may run on; at least 1. A process that is bound to some cores
// (taskset, cpusets) has fewer than the machine, and so has one in a container
// that may use only so much of their time. Reads /sys/fs/cgroup/cpu.max each
// time: the CPU quota of cgroups v2, but not that of v1.
int NumCores();
// Returns the number of cores under the CPU quota that `cpu_max` says, a file
// as ParseCpuMax reads it.
int NumCores(std::istream& cpu_max);

// Reads a cpu.max of cgroups v2, as "150000 100000" for one and a half cores,
// and returns the quota in cores, rounded up: 2. Returns nothing where there is
// no limit or the text is malformed.
std::optional<int> ParseCpuMax(std::istream& cpu_max);

}  // namespace tensorkv

#endif  // TENSORKV_BASE_CORES_H_
