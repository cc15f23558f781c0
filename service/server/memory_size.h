// Says how much memory this process may use.

#ifndef TENSORKV_SERVICE_SERVER_MEMORY_SIZE_H_
#define TENSORKV_SERVICE_SERVER_MEMORY_SIZE_H_

#include <cstdint>
#include <istream>

#include "absl/strings/string_view.h"

namespace tensorkv {

// Returns the machine's memory, or what the cgroups of the process leave of it.
uint64_t MemorySizeBytes();

// Returns the least limit of the cgroup (version 2) that `membership` names, a
// text such as /proc/self/cgroup, and of those above it up to `root`, the
// folder of them all; UINT64_MAX if there is none. In a container that folder
// may be the container's own, and the name the host's: then its limit alone is
// there.
uint64_t CgroupLimitBytes(absl::string_view root, std::istream& membership);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_MEMORY_SIZE_H_
