// How many threads can run at once.

#ifndef TENSORKV_SERVICE_SERVER_CORES_H_
#define TENSORKV_SERVICE_SERVER_CORES_H_

namespace tensorkv {

// The cores that the calling thread, and those that it starts, may run on; at
// least 1. A process that is bound to some cores (taskset, cpusets of
// containers) has fewer than the machine.
int NumCores();

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_CORES_H_
