// How many threads can run at once.

#ifndef TENSORKV_BASE_CORES_H_
#define TENSORKV_BASE_CORES_H_

#include <istream>
#include <optional>

namespace tensorkv {

// The cores that the calling thread, and those that it starts, may run on; at
// least 1. A process that is bound to some cores (taskset, cpusets) has fewer
// than the machine, and so has one in a container that may use only so much of
// their time.
int NumCores();
// Does the same with this `quota`, which is as CoresOfQuota takes it; the other
// reads the one of its container.
int NumCores(std::istream& quota);

// As many cores as it takes to use what `quota` allows: a cpu.max of cgroups
// v2, as "150000 100000" for one and a half. None where it has no limit.
std::optional<int> CoresOfQuota(std::istream& quota);

}  // namespace tensorkv

#endif  // TENSORKV_BASE_CORES_H_
